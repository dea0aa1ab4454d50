package permission_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

func domains(tool string, hosts ...string) permission.Rule {
	return permission.Rule{Tool: permission.One(tool), Domains: permission.Many(hosts...)}
}

func TestRulesHost(t *testing.T) {
	secret := domains("fetch", "secret.example")
	secret.Reason = "not ours"
	c := compile(t, permission.Spec{
		Engine:    permission.Layer{Deny: []permission.Rule{domains("fetch", "evil.example", "10.0.0.1"), secret}},
		Profile:   permission.Layer{Ask: []permission.Rule{domains("fetch", "evil.example", "*.corp.example")}},
		AgentDeny: []permission.Rule{domains("fetch", "agent.example")},
	})
	for host, want := range map[string]string{
		"evil.example":           `deny-rule {tool: fetch, domains: [evil.example, 10.0.0.1]}`,
		"EVIL.example.":          `deny-rule {tool: fetch, domains: [evil.example, 10.0.0.1]}`,
		"::ffff:10.0.0.1":        `deny-rule {tool: fetch, domains: [evil.example, 10.0.0.1]}`,
		"secret.example":         `deny-rule {tool: fetch, domains: [secret.example]}: not ours`,
		"agent.example":          `deny-rule {tool: fetch, domains: [agent.example]}`,
		"x.CORP.example":         `ask-rule {tool: fetch, domains: [evil.example, "*.corp.example"]}`,
		"corp.example":           "",
		"ok.example":             "",
		"a b":                    `"a b" is no host name or address`,
		"":                       `"" is no host name or address`,
		"evil.example\u202e.com": `"evil.example\u202e.com" is no host name or address`,
	} {
		err := c.Rules("fetch").Host(host, false)
		if want == "" {
			assert.NoError(t, err, host)
			continue
		}
		assert.EqualError(t, err, want, host)
		assert.NotErrorIs(t, err, nil)
		var refused tool.Refused
		require.True(t, errors.As(err, &refused), host)
		assert.True(t, strings.HasPrefix(want, refused.RefusedBy()) || refused.RefusedBy() == "deny-rule", host)
	}
	assert.NoError(t, c.Rules("fetch").Host("x.corp.example", true), "it was asked about")
	assert.Error(t, c.Rules("fetch").Host("evil.example", true), "a deny is no question")
	assert.NoError(t, c.Rules("other").Host("evil.example", false))
	assert.Error(t, c.Rules("other").Host("a b", false))
}

func TestRuleErrorNamesItsCause(t *testing.T) {
	cause := errors.New("unknown profile")
	err := &permission.RuleError{Table: "deny", Subject: "shell", Cause: cause}
	require.ErrorIs(t, err, cause)
	require.EqualError(t, err, `"shell" cannot be judged: unknown profile`)
}

func TestRulesArgv(t *testing.T) {
	rm := argvRule("rm **")
	c := compile(t, permission.Spec{Engine: permission.Layer{
		Deny: []permission.Rule{{Tool: permission.One("shell")}, rm},
		Ask:  []permission.Rule{{Tool: permission.One("exec"), Argv: permission.One("ls")}}}})
	for _, args := range [][]string{
		{"rm"}, {"rm", "-rf", "x"}, {"/bin/rm", "x"}, {"env", "-u", "A", "rm", "x"}, {"sh", "-c", "cd /; rm x"},
		{"rm", "a\u202eb"}, {"rm", "\x00"}, {"rm", "\xff"}, {"rm", "a\rb"}, {"rm", strings.Repeat("x", 1<<20)},
	} {
		err := c.Rules("shell").Argv(args)
		var refused *permission.RuleError
		if assert.True(t, errors.As(err, &refused), "%.40q", args) {
			assert.Equal(t, rm, *refused.Rule)
			assert.Equal(t, "deny-rule "+rm.String(), refused.RefusedBy())
			assert.LessOrEqual(t, len(refused.Subject), 5000)
		}
	}
	assert.NoError(t, c.Rules("shell").Argv([]string{"ls", "rm"}))
	assert.NoError(t, c.Rules("shell").Argv(nil))
	assert.NoError(t, c.Rules("exec").Argv([]string{"rm"}))
	assert.NoError(t, c.Rules("other").Argv([]string{"rm"}))
}

// An address in a spelling that programs read differently is no host: it asks, and no rule can be written for it.
func TestDisguisedAddressesAreNoHosts(t *testing.T) {
	c := compile(t, permission.Spec{Engine: permission.Layer{Deny: []permission.Rule{domains("fetch", "127.0.0.1")}}})
	for host, ok := range map[string]bool{
		"127.0.0.1": true, "2130706433": false, "127.1": false, "0x7f.1": false, "0x7f000001": false, "0177.0.0.1": false,
		"a.1": false, "a.0x": false, "1.2.3.4.5": false, "2130706433.": false, "\uff11\uff12\uff17.1": false,
		"1a.example": true, "0x7f.example": true, "example.0xg": true, "a1": true,
	} {
		_, normal := permission.NormalHost(host)
		assert.Equal(t, ok, normal, host)
		assert.Equal(t, !ok, permission.Layer{Deny: []permission.Rule{domains("fetch", host)}}.Check("engine") != nil, host)
		input, err := json.Marshal(map[string]string{"url": "http://" + host + "/"})
		require.NoError(t, err)
		d := permission.Explain(c, tool.Info{Name: "fetch", Risk: tool.Network}, input)
		want := permission.Allow
		switch {
		case host == "127.0.0.1":
			want = permission.Deny
		case !ok:
			want = permission.Ask
		}
		assert.Equal(t, want, d.Verdict, host)
	}
}

// Brackets are for addresses, and come in pairs.
func TestBracketsOfHosts(t *testing.T) {
	for host, want := range map[string]string{
		"[::1]": "::1", "::1": "::1", "[0:0::1]": "::1", "[::1": "", "::1]": "", "[[::1]]": "", "[a.example]": "", "[]": "", "[": "",
	} {
		got, ok := permission.NormalHost(host)
		assert.Equal(t, want, got, host)
		assert.Equal(t, want != "", ok, host)
	}
}

func TestAURLThatCannotBeDecodedAsks(t *testing.T) {
	c := compile(t, permission.Spec{Engine: permission.Layer{Deny: []permission.Rule{domains("fetch", "evil.example")}}})
	for _, input := range []string{`{"url":"http://evil.example\ud800/"}`, "{\"url\":\"http://a/\xff\"}", `{"url":7}`} {
		d := permission.Explain(c, tool.Info{Name: "fetch", Risk: tool.Network}, json.RawMessage(input))
		assert.Equal(t, permission.Ask, d.Verdict, input)
	}
}

// IDNA takes time quadratic in the number of different characters; a host of this many would take days.
func TestAHostThatIsTooLong(t *testing.T) {
	var long strings.Builder
	for n := range 1 << 20 {
		long.WriteRune(rune(0x4e00 + n*7919%20000))
	}
	_, ok := permission.NormalHost(long.String())
	assert.False(t, ok)
	c := compile(t, permission.Spec{Engine: permission.Layer{Deny: []permission.Rule{{Tool: permission.One("fetch"), Domains: permission.One("evil.example")}}}})
	input, err := json.Marshal(map[string]string{"url": "http://" + long.String() + "/"})
	assert.NoError(t, err)
	assert.Equal(t, permission.Ask, permission.Explain(c, tool.Info{Name: "fetch"}, input).Verdict)
}
