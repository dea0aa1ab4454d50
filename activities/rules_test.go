package activities_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

func denyArgv(pattern string) permission.Layer {
	return permission.Layer{Deny: []permission.Rule{{Tool: permission.One("sh"), Argv: permission.One(pattern)}}}
}

// A tool that asks the rules while it runs meets those of the engine, of the profile of its agent and of the agent itself.
func TestRulesAtRunTime(t *testing.T) {
	sh := tool.MustNew("sh", "Runs.", func(_ context.Context, c *tool.Context, in struct {
		Argv []string `json:"argv,omitempty"`
		Host string   `json:"host,omitempty"`
	}) (string, error) {
		if in.Host != "" {
			return "ran", c.Rules.Host(in.Host, false)
		}
		return "ran", c.Rules.Argv(in.Argv)
	}, tool.Execute)
	hosts := []permission.Rule{{Tool: permission.One("sh"), Domains: permission.One("evil.example")}}
	agents := func(deny ...permission.Rule) json.RawMessage { return raw(protocol.Tighten{Deny: deny}) }
	for name, tc := range map[string]struct {
		input   string
		profile string
		tighten json.RawMessage
		want    string // by whom it is denied, or empty
	}{
		"nothing against it":    {input: `{"argv":["ls"]}`, profile: "p"},
		"engine":                {input: `{"argv":["rm","x"]}`, profile: "p", want: `deny-rule {tool: sh, argv: "rm **"}`},
		"engine, no agent":      {input: `{"argv":["rm","x"]}`, want: `deny-rule {tool: sh, argv: "rm **"}`},
		"profile":               {input: `{"argv":["dd"]}`, profile: "p", want: `deny-rule {tool: sh, argv: dd}`},
		"another profile":       {input: `{"argv":["dd"]}`, profile: "q"},
		"agent":                 {input: `{"argv":["mv","a"]}`, profile: "q", tighten: agents(denyArgv("mv *").Deny...), want: `deny-rule {tool: sh, argv: "mv *"}`},
		"agent, host":           {input: `{"host":"EVIL.example"}`, profile: "q", tighten: agents(hosts...), want: `deny-rule {tool: sh, domains: evil.example}`},
		"no profile":            {input: `{"argv":["ls"]}`, profile: "gone", want: "deny-rule"},
		"no profile, host":      {input: `{"host":"a"}`, profile: "gone", want: "deny-rule"},
		"unreadable":            {input: `{"argv":["ls"]}`, profile: "p", tighten: json.RawMessage(`{"deny":[{"tol":"sh"}]}`), want: "deny-rule"},
		"rules of another kind": {input: `{"argv":["ls"]}`, profile: "p", tighten: json.RawMessage(`{"deny":[{}]}`), want: "deny-rule"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, activities.Config{Permissions: denyArgv("rm **"), Profiles: map[string]config.Profile{
				"p": {Name: "p", Tools: []string{"sh"}, Permissions: denyArgv("dd")}, "q": {Name: "q", Tools: []string{"sh"}},
			}}, pipeline.PluginFunc("sh", func(s *pipeline.Scope) error { return s.Tool(sh) }))
			call, grant, place := b.callOf("sh", tc.input)
			call.Tighten = tc.tighten
			if tc.profile != "" {
				call.Agent = &tool.Agent{Type: tc.profile}
				grant.Terms = protocol.Terms(call)
			}
			b.granted(ring(t).Sign(grant, place))
			r := b.invoke(call, "sh")
			if tc.want == "" {
				require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
				return
			}
			require.Equal(t, tool.Denied, r.Code)
			require.Equal(t, tool.ByRule, r.Failure.Reason)
			require.Equal(t, tc.want, r.Failure.By)
		})
	}
}
