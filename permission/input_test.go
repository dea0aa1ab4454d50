package permission_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

func TestArgvInputs(t *testing.T) {
	c := compile(t, permission.Spec{Engine: permission.Layer{
		Deny: []permission.Rule{argvRule("rm **", "git push --force"), {Tool: permission.One("shell"), Argv: permission.One("rm -rf **")}},
		Ask:  []permission.Rule{argvRule("git push **"), argvRule("npm publish")},
	}})
	for input, want := range map[string]struct {
		verdict permission.Verdict
		rule    string
		reason  string
	}{
		`{"command":"ls"}`:                                                      {verdict: permission.Allow},
		`{"argv":["ls","rm"]}`:                                                  {verdict: permission.Allow},
		`{"argv":["rm","x"]}`:                                                   {verdict: permission.Deny, rule: `{tool: shell, argv: ["rm **", "git push --force"]}`},
		`{"command":"npm publish; git push"}`:                                   {verdict: permission.Ask, rule: `{tool: shell, argv: ["git push **"]}`},
		`{"command":"git push $X"}`:                                             {verdict: permission.Ask, rule: `{tool: shell, argv: ["git push **"]}`},
		`{"command":"true $(id)"}`:                                              {verdict: permission.Ask, reason: "the command cannot be judged: command substitution"},
		`{"command":"ls","argv":["rm"]}`:                                        {verdict: permission.Deny, rule: `{tool: shell, argv: ["rm **", "git push --force"]}`},
		`{"command":"ls","argv":["ls"]}`:                                        {verdict: permission.Allow},
		`{"command":"ls","command":"ls"}`:                                       {verdict: permission.Ask, reason: "the input has more than one command"},
		`{"command":"rm x","command":"ls"}`:                                     {verdict: permission.Deny, rule: `{tool: shell, argv: ["rm **", "git push --force"]}`},
		`{"command":"ls","Command":"ls"}`:                                       {verdict: permission.Ask, reason: "the input has more than one command"},
		`{"command":"ls","COMMAND":"rm x"}`:                                     {verdict: permission.Deny, rule: `{tool: shell, argv: ["rm **", "git push --force"]}`},
		`{"command":"ls","argv":["ls"],"ARGV":["l"],"Argv":["l"],"aRgv":["l"]}`: {verdict: permission.Ask, reason: "the input has more than one argv"},
		`{"command":null}`:                                                      {verdict: permission.Ask, reason: "the command is not a string"},
		`{"command":["ls"]}`:                                                    {verdict: permission.Ask, reason: "the command is not a string"},
		`{"command":7,"argv":["ls"]}`:                                           {verdict: permission.Ask, reason: "the command is not a string"},
		`{"argv":"ls"}`:                                                         {verdict: permission.Ask, reason: "argv is not a list of strings"},
		`{"argv":["ls",null]}`:                                                  {verdict: permission.Ask, reason: "argv is not a list of strings"},
		`{"command":"ls \ud800"}`:                                               {verdict: permission.Ask, reason: "the command has characters that cannot be decoded"},
		`{"command":"rm \ud800"}`:                                               {verdict: permission.Deny, rule: `{tool: shell, argv: ["rm **", "git push --force"]}`},
		"{\"command\":\"ls \xff\"}":                                             {verdict: permission.Ask, reason: "the command has characters that cannot be decoded"},
		`{"argv":["ls","\udc00"]}`:                                              {verdict: permission.Ask, reason: "argv has characters that cannot be decoded"},
		`{"argv":null}`:                                                         {verdict: permission.Ask, reason: "argv is not a list of strings"},
		`{"argv":[]}`:                                                           {verdict: permission.Ask},
		`{}`:                                                                    {verdict: permission.Ask, reason: "the input has no command"},
		`[]`:                                                                    {verdict: permission.Ask, reason: "the input is not an object"},
		`null`:                                                                  {verdict: permission.Ask, reason: "the input is not an object"},
	} {
		t.Run(input, func(t *testing.T) {
			d := permission.Explain(c, shellTool, json.RawMessage(input))
			assert.Equal(t, want.verdict, d.Verdict, "%+v", d)
			if want.rule == "" {
				assert.Nil(t, d.Rule)
			} else if assert.NotNil(t, d.Rule) {
				assert.Equal(t, want.rule, d.Rule.String())
			}
			if want.reason != "" {
				assert.Equal(t, want.reason, d.Reason)
			}
		})
	}
}

func TestMayBecomeDenied(t *testing.T) {
	c := compile(t, permission.Spec{Engine: permission.Layer{Deny: []permission.Rule{argvRule("git push --force")}}})
	d := permission.Explain(c, shellTool, shell("git push $X"))
	assert.Equal(t, permission.Ask, d.Verdict)
	assert.Contains(t, d.Reason, `it may become what "git push --force" denies`)
	require.Len(t, d.Segments, 1)
}

func TestVetted(t *testing.T) {
	vetted := []permission.Vetted{{Tool: permission.Many("shell"), Argv: permission.Many("go test **", "git push")}}
	s := permission.Spec{
		Engine:  permission.Layer{Vetted: vetted, Deny: []permission.Rule{argvRule("go test -exec **"), {Tool: permission.One("gone")}}},
		Profile: permission.Layer{Preset: permission.Standard, Ask: []permission.Rule{argvRule("git push **")}},
	}
	c := compile(t, s)
	for command, by := range map[string]permission.Decider{
		"go test ./...":            permission.ByHook,
		"go test ./... && go test": permission.ByHook,
		"go test; ls":              permission.ByAskRule,
		"go test $(id)":            permission.ByAskRule,
		"go test -exec sh":         permission.ByDenyRule,
		"git push":                 permission.ByAskRule,
	} {
		d := permission.Explain(c, shellTool, shell(command))
		assert.Equal(t, by, d.DecidedBy, "%s: %+v", command, d)
		assert.Equal(t, by == permission.ByHook, d.Verdict == permission.Allow, command)
	}
	d := permission.Explain(c, shellTool, shell("go test ./..."))
	assert.Equal(t, `vetted "go test **"`, d.Reason)
	assert.Len(t, d.Segments, 1)
	assert.Equal(t, permission.ByAskRule, permission.Explain(c, shellTool, json.RawMessage(`{"argv":["go","test"],"command":"go test"}`)).DecidedBy)
	assert.Equal(t, permission.ByAskRule, permission.Explain(c, shellTool, json.RawMessage(`{}`)).DecidedBy)

	s.Engine.Hooks = []permission.Hook{hook("first", permission.AnswerDeny(""))}
	assert.Equal(t, permission.Deny, permission.Explain(compile(t, s), shellTool, shell("go test")).Verdict, "vetted is the last hook")
	s.Engine.Hooks = nil
	s.AgentDeny = []permission.Rule{{Risk: permission.One("execute")}}
	assert.Equal(t, permission.Deny, permission.Explain(compile(t, s), shellTool, shell("go test")).Verdict, "a deny rule of any layer")
}

func TestDomains(t *testing.T) {
	rules := func(name string) permission.Layer {
		return permission.Layer{
			Deny: []permission.Rule{{Tool: permission.One(name), Domains: permission.Many("evil.example", "*.evil.example", "169.254.169.254", "::1", "bücher.example")}},
			Ask:  []permission.Rule{{Tool: permission.One(name), Domains: permission.One("*.corp.example")}},
		}
	}
	for _, tc := range []struct {
		url     string
		verdict permission.Verdict
		hits    int
	}{
		{"https://ok.example/x", permission.Allow, 0},
		{"https://evil.example/x", permission.Deny, 1},
		{"https://EVIL.example.:8443/x", permission.Deny, 1},
		{"https://a.b.evil.example", permission.Deny, 1},
		{"https://notevil.example", permission.Allow, 0},
		{"https://user:pass@evil.example/", permission.Deny, 1},
		{"https://ok.example@evil.example/", permission.Deny, 1},
		{"https://evil.example@ok.example/", permission.Allow, 0},
		{"https://evil\u3002example/", permission.Deny, 1},
		{"https://\uff45vil.example/", permission.Deny, 1},
		{"https://b\u00fccher.example/", permission.Deny, 1},
		{"https://xn--bcher-kva.example/", permission.Deny, 1},
		{"http://[::1]/", permission.Deny, 1},
		{"http://[0:0:0:0:0:0:0:1]:80/", permission.Deny, 1},
		{"http://[::ffff:169.254.169.254]/", permission.Deny, 1},
		{"http://\uff11\uff16\uff19.254.169.254/", permission.Deny, 1},
		{"http://169.254.169.254./", permission.Deny, 1},
		{"https://a.corp.example", permission.Ask, 1},
		{"https://corp.example", permission.Allow, 0},
		{"evil.example", permission.Ask, 0},
		{"//evil.example", permission.Ask, 0},
		{"https://evil.example\\@ok.example", permission.Ask, 0},
		{"https://a..b/", permission.Ask, 0},
		{"https://xn--\u00fc/", permission.Ask, 0},
		{"https:///x", permission.Ask, 0},
		{"https://a b/", permission.Ask, 0},
	} {
		t.Run(tc.url, func(t *testing.T) {
			input, err := json.Marshal(map[string]string{"url": tc.url})
			require.NoError(t, err)
			d := permission.Explain(compile(t, permission.Spec{Engine: rules("fetch")}), tool.Info{Name: "fetch", Risk: tool.Network}, input)
			assert.Equal(t, tc.verdict, d.Verdict, "%+v", d)
			assert.Empty(t, d.Advisories)
			d = permission.Explain(compile(t, permission.Spec{Engine: rules("http_get")}), tool.Info{Name: "http_get", Risk: tool.Network}, input)
			assert.Equal(t, permission.Allow, d.Verdict, "advisory for any other tool")
			assert.Len(t, d.Advisories, tc.hits)
		})
	}
	fetch := compile(t, permission.Spec{Engine: rules("fetch")})
	for _, input := range []string{`{}`, `{"url":7}`, `{"url":null}`, `7`, `{"url":"https://ok.example","url":"https://ok.example"}`, `{"url":"https://ok.example","URL":"x"}`} {
		assert.Equal(t, permission.Ask, permission.Explain(fetch, tool.Info{Name: "fetch"}, json.RawMessage(input)).Verdict, input)
	}
	d := permission.Explain(fetch, tool.Info{Name: "fetch"}, json.RawMessage(`{"url":"https://evil.example","url":"https://ok.example"}`))
	assert.Equal(t, permission.Deny, d.Verdict, "a repeated key does not hide a denied host")

	advice := permission.Explain(compile(t, permission.Spec{Engine: rules("http_get")}), tool.Info{Name: "http_get"}, json.RawMessage(`{"url":"https://x.corp.example"}`)).Advisories
	assert.Equal(t, []permission.Advisory{{Table: "ask", Rule: rules("http_get").Ask[0], Host: "x.corp.example"}}, advice)
}

func TestMatchShellCommand(t *testing.T) {
	for _, tc := range []struct {
		command string
		tables  permission.Tables
		want    permission.Verdict
	}{
		{"npm test", permission.Tables{Allow: []string{"npm test", "npm run *"}}, permission.Allow},
		{"npm test; rm -rf /", permission.Tables{Allow: []string{"npm test"}}, permission.Ask},
		{"git push --force", permission.Tables{Deny: []string{"git push --force"}, Ask: []string{"git **"}}, permission.Deny},
	} {
		d, err := permission.MatchShellCommand(tc.command, tc.tables)
		require.NoError(t, err)
		assert.Equal(t, tc.want, d.Verdict, tc.command)
		assert.NotEmpty(t, d.Segments)
	}
	d, err := permission.MatchShellCommand("ls", permission.Tables{Allow: []string{"ls"}, Deny: []string{"rm ** x"}})
	assert.EqualError(t, err, `deny[0]: bad argv pattern: pattern "rm ** x": byte 3: ** is not last`)
	assert.Equal(t, permission.Deny, d.Verdict)
}
