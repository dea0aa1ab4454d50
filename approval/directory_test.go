package approval_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
)

var directory = approval.Directory{
	Groups: map[string][]string{"ops": {"bob", "alice"}, "leads": {"carol", "alice"}},
	Keys:   map[string]ed25519.PublicKey{"alice": alice.Public().(ed25519.PublicKey)},
}

func TestMembers(t *testing.T) {
	require.Equal(t, []string{"alice", "bob", "carol"}, directory.Members([]string{"ops", "leads", "nobody"}))
	require.Empty(t, approval.Directory{}.Members([]string{"ops"}))
}

// A policy that too few people can satisfy would wait for ever.
func TestShort(t *testing.T) {
	for name, tc := range map[string]struct {
		policy permission.ApprovalPolicy
		want   int
	}{
		"anybody":      {permission.ApprovalPolicy{}, 0},
		"any two":      {permission.ApprovalPolicy{Approvers: &permission.Approvers{Min: 2}}, 0},
		"one":          {permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"ops"}}}, 0},
		"both":         {permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"ops"}, Min: 2}}, 0},
		"nobody":       {permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"x"}}}, 1},
		"three of two": {permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"ops"}, Min: 3}}, 1},
		"with more asked": {permission.ApprovalPolicy{Approvers: &permission.Approvers{Groups: []string{"ops"}, Min: 3},
			Escalate: &permission.Escalation{Groups: []string{"leads"}}}, 0},
	} {
		require.Equal(t, tc.want, directory.Short(tc.policy), name)
	}
}

func TestDirectoryCheck(t *testing.T) {
	require.NoError(t, directory.Check())
	key := directory.Keys["alice"]
	for want, d := range map[string]approval.Directory{
		`Approvers: group "ops": the name " bob" is empty, or has blanks at its ends`:  {Groups: map[string][]string{"ops": {" bob"}}},
		`Approvers: keys: the name "" is empty, or has blanks at its ends`:             {Keys: map[string]ed25519.PublicKey{"": key}},
		`Approvers: keys: that of "bob" has 1 bytes, a public key has 32`:              {Keys: map[string]ed25519.PublicKey{"bob": {1}}},
		`Approvers: keys: "alice" and "bob" have the same one, and would count as two`: {Keys: map[string]ed25519.PublicKey{"alice": key, "bob": key}},
	} {
		require.EqualError(t, d.Check(), want)
	}
	require.ErrorContains(t, approval.Directory{Groups: map[string][]string{"ops": {strings.Repeat("x", 201)}}}.Check(), "has 201 bytes, at most 200 fit")
}

func TestPrincipal(t *testing.T) {
	name, proved, err := directory.Principal(question, approval.Resolution{By: " bob "})
	require.NoError(t, err)
	require.Equal(t, "bob", name)
	require.False(t, proved)

	r := signed(t, approval.Resolution{Decision: approval.Allow})
	name, proved, err = directory.Principal(question, r)
	require.NoError(t, err)
	require.Equal(t, "alice", name)
	require.True(t, proved)

	r.Reason = "changed"
	_, proved, err = directory.Principal(question, r)
	require.ErrorAs(t, err, new(*approval.SignatureError))
	require.False(t, proved)
}

func TestEntitled(t *testing.T) {
	ops := &permission.Approvers{Groups: []string{"ops"}, Min: 2}
	for name, tc := range map[string]struct {
		approvers *permission.Approvers
		by        string
		proved    bool
		want      string
	}{
		"anybody":             {nil, "", false, ""},
		"anybody by name":     {nil, "eve", false, ""},
		"borrowed name":       {nil, "alice", false, `"alice" signs answers, and this one is not signed`},
		"own name":            {nil, "alice", true, ""},
		"member":              {ops, "alice", true, ""},
		"member without sign": {ops, "alice", false, `"alice" signs answers, and this one is not signed`},
		"no name":             {ops, "", false, "it does not say who gives it (by)"},
		"requester":           {ops, "dan", false, `"dan" asked for the run`},
		"voted":               {ops, "bob", false, `"bob" has allowed it before`},
		"stranger":            {ops, "carol", true, `"carol" is in none of the groups ops`},
		"any two":             {&permission.Approvers{Min: 2}, "eve", false, ""},
		"any two, long name":  {&permission.Approvers{Min: 2}, strings.Repeat("x", 201), false, "the name of who gives it has more than 200 bytes"},
		"any two, but who":    {&permission.Approvers{Min: 2}, "", false, "it does not say who gives it (by)"},
	} {
		q := question
		q.Approvers, q.RequestedBy, q.Votes = tc.approvers, "dan", []approval.Vote{{By: "bob"}}
		err := directory.Entitled(q, tc.by, tc.proved)
		if tc.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.EqualError(t, err, "the allow does not count: "+tc.want, name)
		require.ErrorAs(t, err, new(*approval.UnentitledError), name)
	}
}
