package plugins_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/plugins"
)

// plants are texts and the part of each that must not survive.
func plants() [][2]string {
	var out [][2]string
	kinds := []string{}
	for kind := range planted {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		s := planted[kind]
		core := s[8 : 8+12]
		if kind == "private-key" {
			core = "MIIEpAIBAAKCAQEA"
		}
		out = append(out, [2]string{s, core})
	}
	for _, form := range []string{" password=%\n", " DB_PASSWORD: %\n", " {\\\"api_key\\\":\\\"%\\\"}", ` "token": "%"`, " --secret %\n",
		" Authorization: Bearer %\n", " https://bob:%@host ", " <passwd>%</passwd>"} {
		out = append(out, [2]string{strings.Replace(form, "%", "hunter2hunter2", 1), "hunter2hunter2"})
	}
	return out
}

var inQuotes = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// skeleton is JSON without what its strings say.
func skeleton(raw []byte) string { return string(inQuotes.ReplaceAll(raw, []byte(`""`))) }

// A planted secret never survives, wherever it stands and however often it was encoded, and nothing panics. JSON stays JSON of
// the same structure.
func FuzzRedact(f *testing.F) {
	f.Add("", "", `{"a":[1,2,{"b":"c"}]}`, uint8(0))
	f.Add(`{"a":"`, `"}`, `[]`, uint8(3))
	f.Add("password=", "@x", `{"password":"a","n":1e400}`, uint8(20))
	f.Add("-----BEGIN "+"PRIVATE KEY-----\n", "eyJ", `{"name":"TOKEN","value":"abcdef12"}`, uint8(21))
	f.Add(`\"'`+"`", "ghp_", `"{\"a\":\"\\u0070\"}"`, uint8(22))
	f.Add("api key token", "\\", `["-----BEGIN `+`PRIVATE KEY-----","QUJD"]`, uint8(9))
	f.Add("http://[::1]:", "=", `0`, uint8(25))
	r := redactor(f, plugins.RedactConfig{Keys: true})
	all := plants()
	f.Fuzz(func(t *testing.T, before, after, doc string, which uint8) {
		if len(before)+len(after)+len(doc) > 1<<14 {
			t.Skip()
		}
		before, after = strings.ToValidUTF8(before, ""), strings.ToValidUTF8(after, "")
		plant := all[int(which)%len(all)]
		text := before + plant[0] + after
		if strings.Contains(before+after, plant[1]) || shadowed(before) {
			t.Skip()
		}
		out := r.Text(text)
		require.NotContains(t, out, plant[1], "%q", text)
		require.True(t, utf8.ValidString(out))

		if !json.Valid([]byte(doc)) || strings.Contains(doc, plant[1]) {
			doc = "null"
		}
		value, err := json.Marshal(text)
		require.NoError(t, err)
		for range 3 {
			raw := []byte(`{"doc":` + doc + `,"at":[` + string(value) + `]}`)
			got, err := r.JSON(raw)
			require.NoError(t, err)
			require.True(t, json.Valid(got))
			require.NotContains(t, string(got), plant[1])
			require.Equal(t, skeleton(raw), skeleton(got))
			value, err = json.Marshal(string(raw))
			require.NoError(t, err)
		}
		if clean, err := r.JSON([]byte(doc)); err == nil {
			require.Equal(t, skeleton([]byte(doc)), skeleton(clean))
		}
	})
}

// shadowed reports whether the letters before a plant may belong to its name or its first bytes, and make it something else.
func shadowed(before string) bool {
	return before != "" && regexp.MustCompile(`[A-Za-z0-9_.-]\z`).MatchString(before)
}

// Odd bytes are no reason to panic or to leave something.
func TestRedactInvalidUTF8(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{})
	require.Equal(t, "\xff password=[redacted:password]\xfe", r.Text("\xff password=hunter2\xfe")+"\xfe")
	out, err := r.JSON([]byte("\"\xff " + planted["github-token"] + "\""))
	require.NoError(t, err)
	require.NotContains(t, string(out), planted["github-token"])
	require.True(t, json.Valid(out))
}
