package approval_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
)

var one, two, none = []string{"run-1"}, []string{"run-1", "run-2"}, []string{}

func TestDecodeAllows(t *testing.T) {
	until := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	full := approval.Resolution{Key: "run-1", Decision: approval.Allow, Reason: "r", By: "alice", Input: json.RawMessage(`{"a": 1}`),
		Always: true, ExpiresAt: &until, Signature: &approval.Signature{KeyID: "k", Sig: "s"}}
	plain := approval.Resolution{Key: "run-1", Decision: approval.Allow}
	for name, tc := range map[string]struct {
		data    string
		pending []string
		want    approval.Resolution
	}{
		"object":                {`{"key":"run-1","decision":"allow"}`, two, plain},
		"space around":          {" \n{\"key\":\"run-1\",\"decision\":\"allow\"}\t", two, plain},
		"string that holds it":  {`"{\"key\":\"run-1\",\"decision\":\"allow\"}"`, two, plain},
		"space in the string":   {`" {\"key\":\"run-1\",\"decision\":\"allow\"} "`, two, plain},
		"bare word":             {`"allow"`, one, plain},
		"bare word with space":  {`" allow "`, one, plain},
		"unknown member":        {`{"key":"run-1","decision":"allow","colour":"red"}`, one, plain},
		"other case is unknown": {`{"key":"run-1","decision":"allow","Decision":"deny","KEY":"run-2"}`, two, plain},
		"nulls":                 {`{"key":"run-1","decision":"allow","input":null,"expiresAt":null,"signature":null,"by":null,"always":null}`, one, plain},
		"everything": {`{"key":"run-1","decision":"allow","reason":"r","by":"alice","input":{"a": 1},"always":true,
			"expiresAt":"2027-01-01T00:00:00Z","signature":{"keyId":"k","sig":"s"}}`, one, full},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := approval.Decode([]byte(tc.data), tc.pending, nil)
			require.NoError(t, err)
			require.Equal(t, []approval.Resolution{tc.want}, got)
		})
	}
}

// What names a pending key and is no explicit allow denies it, and says why.
func TestDecodeDenies(t *testing.T) {
	for name, tc := range map[string]struct{ data, why string }{
		"deny":                 {`{"key":"run-1","decision":"deny","reason":"no"}`, "no"},
		"no decision":          {`{"key":"run-1"}`, "malformed answer: it has no decision"},
		"null decision":        {`{"key":"run-1","decision":null}`, "malformed answer: it has no decision"},
		"other case":           {`{"key":"run-1","Decision":"allow"}`, "malformed answer: it has no decision"},
		"upper case":           {`{"key":"run-1","decision":"ALLOW"}`, `malformed answer: the decision "ALLOW" is none of allow, deny, revoke`},
		"yes":                  {`{"key":"run-1","decision":"yes"}`, `malformed answer: the decision "yes" is none of allow, deny, revoke`},
		"true":                 {`{"key":"run-1","decision":true}`, `malformed answer: the member "decision" has the wrong type`},
		"list":                 {`{"key":"run-1","decision":["allow"]}`, `malformed answer: the member "decision" has the wrong type`},
		"two decisions":        {`{"key":"run-1","decision":"allow","decision":"allow"}`, `malformed answer: the member "decision" appears twice`},
		"two of anything":      {`{"key":"run-1","decision":"allow","x":1,"x":2}`, `malformed answer: the member "x" appears twice`},
		"wrong type of by":     {`{"key":"run-1","decision":"allow","by":1}`, `malformed answer: the member "by" has the wrong type`},
		"wrong type of always": {`{"key":"run-1","decision":"allow","always":"yes"}`, `malformed answer: the member "always" has the wrong type`},
		"signature is text":    {`{"key":"run-1","decision":"allow","signature":"s"}`, `malformed answer: the member "signature" has the wrong type`},
		"no time":              {`{"key":"run-1","decision":"allow","expiresAt":"tomorrow"}`, "malformed answer: expiresAt is no RFC 3339 time"},
		"string that holds it": {`"{\"key\":\"run-1\",\"decision\":1}"`, `malformed answer: the member "decision" has the wrong type`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := approval.Decode([]byte(tc.data), two, nil)
			require.NoError(t, err)
			require.Equal(t, []approval.Resolution{{Key: "run-1", Decision: approval.Deny, Reason: tc.why}}, got)
		})
	}
}

func TestDecodeBareDenyAndRevoke(t *testing.T) {
	got, err := approval.Decode([]byte(`"deny"`), two, nil)
	require.NoError(t, err)
	require.Equal(t, []approval.Resolution{{Key: "run-1", Decision: approval.Deny}, {Key: "run-2", Decision: approval.Deny}}, got)
	got, err = approval.Decode([]byte(`{"key":"run-2","decision":"revoke"}`), two, nil)
	require.NoError(t, err)
	require.Equal(t, []approval.Resolution{{Key: "run-2", Decision: approval.Revoke}}, got)
}

// What names no pending key changes nothing, with a reason for people.
func TestDecodeIgnores(t *testing.T) {
	long := strings.Repeat("x", 100)
	for name, tc := range map[string]struct {
		data    string
		pending []string
		why     string
	}{
		"nothing":             {``, one, "it is empty"},
		"space":               {` `, one, "it is no object with a key and a decision"},
		"null":                {`null`, one, "it is no object with a key and a decision"},
		"true":                {`true`, one, "it is no object with a key and a decision"},
		"list":                {`[{"key":"run-1","decision":"allow"}]`, one, "it is no object with a key and a decision"},
		"unquoted word":       {`allow`, one, "it is no object with a key and a decision"},
		"empty object":        {`{}`, one, "it names no key"},
		"key is a number":     {`{"key":1,"decision":"allow"}`, one, "it names no key"},
		"key is null":         {`{"key":null,"decision":"allow"}`, one, "it names no key"},
		"key in other case":   {`{"KEY":"run-1","decision":"allow"}`, one, "it names no key"},
		"unknown key":         {`{"key":"run-9","decision":"allow"}`, one, `the key "run-9" is not pending`},
		"key of a prefix":     {`{"key":"run-","decision":"allow"}`, one, `the key "run-" is not pending`},
		"key in two lines":    {`{"key":"a\nb\u202e","decision":"allow"}`, one, `the key "a\nb\u202e" is not pending`},
		"long key":            {`{"key":"` + long + `","decision":"allow"}`, one, `the key "` + long[:64] + `\u2026" is not pending`},
		"before the question": {`{"key":"run-1","decision":"allow"}`, none, `the key "run-1" is not pending`},
		"yes":                 {`"yes"`, one, `the word "yes" is neither allow nor deny`},
		"upper-case word":     {`"Allow"`, one, `the word "Allow" is neither allow nor deny`},
		"empty word":          {`""`, one, `the word "" is neither allow nor deny`},
		"wrapped twice":       {`"\"allow\""`, one, `the word "\"allow\"" is neither allow nor deny`},
		"bare allow of two":   {`"allow"`, two, "a bare allow needs exactly one pending question, there are 2"},
		"bare allow of none":  {`"allow"`, none, "a bare allow needs exactly one pending question, there are 0"},
		"bare deny of none":   {`"deny"`, none, "nothing is pending"},
		"bare revoke":         {`"revoke"`, one, `the word "revoke" is neither allow nor deny`},
		"half a string":       {`"allow`, one, "it is not JSON"},
		"half an object":      {`{"key":"run-1","decision":"allow"`, one, "it is not valid JSON"},
		"comma at the end":    {`{"key":"run-1","decision":"allow",}`, one, "it is not valid JSON"},
		"no value":            {`{"key":"run-1","decision":}`, one, "it is not valid JSON"},
		"two objects":         {`{"key":"run-1","decision":"allow"}{}`, one, "it is not valid JSON"},
		"a brace too many":    {`{"key":"run-1","decision":"allow"}}`, one, "it is not valid JSON"},
		"a bracket too many":  {`{"key":"run-1","decision":"allow"}]`, one, "it is not valid JSON"},
		"not UTF-8":           {"{\"key\":\"run-1\",\"decision\":\"allow\",\"by\":\"\xff\"}", one, "it is not UTF-8 text"},
		"too large":           {`{"key":"run-1","decision":"allow"}` + strings.Repeat(" ", 64<<10), one, "it has 65570 bytes, at most 65536 are read"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := approval.Decode([]byte(tc.data), tc.pending, nil)
			require.Nil(t, got)
			require.EqualError(t, err, "answer ignored: "+tc.why)
			var ignored *approval.DecodeError
			require.ErrorAs(t, err, &ignored)
		})
	}
}

func TestParse(t *testing.T) {
	got, err := approval.Parse([]byte(`{"key":"run-9","decision":"revoke","by":"bob"}`))
	require.NoError(t, err)
	require.Equal(t, approval.Resolution{Key: "run-9", Decision: approval.Revoke, By: "bob"}, got)
	for data, why := range map[string]string{
		``:                               "it is no JSON object",
		`"allow"`:                        "it is no JSON object",
		`{"key":"a","decision":"deny"]`:  "it is no JSON object",
		`{"key":"a","decision":"deny"}}`: "it is no JSON object",
		`{}`:                             "it names no key",
		`{"key":7}`:                      `the member "key" has the wrong type`,
		`{"key":"a","decision":"ok"}`:    `the decision "ok" is none of allow, deny, revoke`,
		`{"key":"a","key":"b"}`:          `the member "key" appears twice`,
		strings.Repeat(" ", 64<<10+1):    "it has 65537 bytes, at most 65536 are read",
		"{\"key\":\"a\",\"decision\":\"deny\",\"by\":\"\xff\"}": "it is not UTF-8 text",
	} {
		_, err := approval.Parse([]byte(data))
		require.EqualError(t, err, "answer ignored: "+why, "%.40q", data)
	}
}

// Who gives an answer is heard from one that is malformed, or names nothing, too: whoever looks at the list wants to know.
func TestDecodeKeepsWhoAnswers(t *testing.T) {
	for data, want := range map[string]string{
		`{"key":"run-1","decision":"yes","by":"alice"}`:               "alice",
		`{"key":"run-1","by":"alice","decision":"allow","x":1,"x":2}`: "alice",
		`{"key":"run-1","by":["alice"]}`:                              "",
		`{"key":"run-1","by":null}`:                                   "",
		`{"key":"run-1"}`:                                             "",
	} {
		got, err := approval.Decode([]byte(data), two, nil)
		require.NoError(t, err)
		require.Equal(t, approval.Deny, got[0].Decision)
		require.Equal(t, want, got[0].By, data)
		_, err = approval.Decode([]byte(data), nil, nil)
		var bad *approval.DecodeError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, want, bad.By, data)
	}
}
