package config_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
)

// Siblings of the rows of TestBadFiles: each form of a policy that cannot be used, with the message after "p.yaml".
var badSiblings = map[string]string{
	// Keys that are misspelt, in each mapping of a policy.
	"profile: {}":         `:1:1: unknown key "profile", did you mean "profiles"; one of engine, profiles, models, mcp, worker`,
	"Engine: {}":          `:1:1: unknown key "Engine", did you mean "engine"; one of engine, profiles, models, mcp, worker`,
	"engine: {denny: []}": `:1:10: engine: unknown key "denny", did you mean "deny"; one of deny, ask, vetted, strictApprovals, approval, groups, keys`,
	"engine: {veted: []}": `:1:10: engine: unknown key "veted", did you mean "vetted"; one of deny, ask, vetted, strictApprovals, approval, groups, keys`,
	"engine: {ask: [{tool: x, aproval: {}}]}":                 `:1:26: engine.ask[0]: unknown key "aproval", did you mean "approval"; one of tool, risk, argv, domains, approval, tests, reason`,
	"engine: {ask: [{tool: x, approval: {dedline: 1h}}]}":     `:1:37: engine.ask[0].approval: unknown key "dedline", did you mean "deadline"; one of deadline, remind, escalate, approvers`,
	"engine: {ask: [{tool: x, tests: {matches: a}}]}":         `:1:34: engine.ask[0].tests: unknown key "matches", did you mean "match"; one of match, notMatch`,
	"engine: {vetted: [{tool: x, command: ls}]}":              `:1:29: engine.vetted[0]: unknown key "command"; one of tool, argv`,
	"engine: {vetted: [{tool: x, argv: ls, tests: {}}]}":      `:1:39: engine.vetted[0]: unknown key "tests"; one of tool, argv`,
	"profiles: {p: {permissions: {presets: open}}}":           `:1:30: profiles.p.permissions: unknown key "presets", did you mean "preset"; one of deny, ask, vetted, strictApprovals, approval, preset, inheritPermissions, guards, attestation`,
	"profiles: {p: {permissions: {inheritPermission: true}}}": `:1:30: profiles.p.permissions: unknown key "inheritPermission", did you mean "inheritPermissions"; one of deny, ask, vetted, strictApprovals, approval, preset, inheritPermissions, guards, attestation`,
	"engine: {\"de\\u202eny\": []}":                           `:1:10: engine: unknown key "de\u202eny"; one of deny, ask, vetted, strictApprovals, approval, groups, keys`,
	// Words outside a closed set.
	"engine: {deny: [{risk: [read, Write]}]}":        `:1:31: unknown risk "Write"; one of read, write, network, execute, destructive, undeclared`,
	"engine: {deny: [{risk: ''}]}":                   `:1:24: unknown risk ""; one of read, write, network, execute, destructive, undeclared`,
	"engine: {deny: [{risk: '*'}]}":                  `:1:24: unknown risk "*"; one of read, write, network, execute, destructive, undeclared`,
	"profiles: {p: {permissions: {preset: Strict}}}": `:1:38: unknown preset "Strict"; one of strict, standard, open`,
	"profiles: {p: {permissions: {preset: none}}}":   `:1:38: unknown preset "none"; one of strict, standard, open`,
	// Forms that a rule cannot have.
	"engine: {deny: [{tool: x, argv: a, domains: b}]}":      `:1:17: engine.deny[0]: a rule has argv or domains, not both`,
	"engine: {deny: [{risk: read, argv: a}]}":               `:1:36: engine.deny[0].argv: argv needs tool beside it`,
	"engine: {deny: [{argv: a}]}":                           `:1:24: engine.deny[0].argv: argv needs tool beside it`,
	"engine: {deny: [{domains: a}]}":                        `:1:27: engine.deny[0].domains: domains needs tool beside it`,
	"engine: {deny: [{reason: a}]}":                         `:1:17: engine.deny[0]: a rule needs tool or risk`,
	"engine: {deny: [{tool: x, risk: read, argv: a}]}":      `:1:17: engine.deny[0]: a rule names tools or risks, not both`,
	"engine: {deny: [{tool: x, approval: {deadline: 1h}}]}": `:1:37: engine.deny[0].approval: only ask rules put questions`,
	"engine: {vetted: [{argv: ls}]}":                        `:1:19: engine.vetted[0]: a vetted line needs tool and argv`,
	"engine: {vetted: [{risk: read, argv: ls}]}":            `:1:20: engine.vetted[0]: unknown key "risk"; one of tool, argv`,
	// Patterns and hosts.
	"engine: {vetted: [{tool: x, argv: ['** x']}]}":         `:1:36: engine.vetted[0].argv[0]: bad argv pattern: pattern "** x": byte 0: ** is not last`,
	"engine: {deny: [{tool: x, argv: ''}]}":                 `:1:33: engine.deny[0].argv: bad argv pattern: pattern "": byte 0: no words`,
	"engine: {deny: [{tool: x, argv: [a, '\"']}]}":          "`:1:37: engine.deny[0].argv[1]: bad argv pattern: pattern \"\\\"\": byte 0: reached EOF without closing quote `\"`",
	"engine: {deny: [{tool: x, domains: ['*']}]}":           `:1:37: engine.deny[0].domains[0]: bad domain "*": want a host name, an IP address or *.host`,
	"engine: {deny: [{tool: x, domains: ['https://a.b']}]}": `:1:37: engine.deny[0].domains[0]: bad domain "https://a.b": want a host name, an IP address or *.host`,
	"engine: {deny: [{tool: x, domains: ['a.b:80']}]}":      `:1:37: engine.deny[0].domains[0]: bad domain "a.b:80": want a host name, an IP address or *.host`,
	// Lists and values that say nothing.
	"engine: {deny: [{risk: []}]}":              `:1:24: engine.deny[0].risk: is empty`,
	"engine: {deny: [{tool: x, argv: []}]}":     `:1:33: engine.deny[0].argv: is empty`,
	"engine: {deny: [{tool: x, domains: []}]}":  `:1:36: engine.deny[0].domains: is empty`,
	"engine: {vetted: [{tool: [], argv: ls}]}":  `:1:26: engine.vetted[0].tool: is empty`,
	"engine: {vetted: [{tool: x, argv: []}]}":   `:1:35: engine.vetted[0].argv: is empty`,
	"engine: {deny: [~]}":                       `:1:17: engine.deny[0]: is empty, want a mapping`,
	"engine: {deny: [{tool: ~}]}":               `:1:24: engine.deny[0].tool: is empty, want a string or a list of strings`,
	"engine: {deny: [{tool: [~]}]}":             `:1:25: engine.deny[0].tool[0]: is empty, want a string`,
	"engine: {deny: [{tool: [null, a]}]}":       `:1:25: engine.deny[0].tool[0]: is empty, want a string`,
	"profiles: {p: }":                           `:1:14: profiles.p: is empty, want a mapping`,
	"profiles: {p: {permissions: {preset: ~}}}": `:1:38: profiles.p.permissions.preset: is empty, want a string`,
	// Values of another type.
	"engine: {deny: [{risk: 5}]}":                                `:1:24: engine.deny[0].risk: want a string or a list of strings, got a number`,
	"engine: {deny: [{tool: x, argv: [5]}]}":                     `:1:34: engine.deny[0].argv[0]: want a string, got a number`,
	"engine: {deny: [{tool: x, argv: true}]}":                    `:1:33: engine.deny[0].argv: want a string or a list of strings, got a boolean`,
	"engine: {deny: [{tool: x, reason: 5}]}":                     `:1:35: engine.deny[0].reason: want a string, got a number`,
	"engine: {deny: [{tool: x, argv: [[a]]}]}":                   `:1:34: engine.deny[0].argv[0]: want a string, got a list`,
	"engine: {deny: [[{tool: x}]]}":                              `:1:17: engine.deny[0]: want a mapping, got a list`,
	"engine: {deny: {tool: x}}":                                  `:1:16: engine.deny: want a list of rules, got a mapping`,
	"profiles: {5: {}}":                                          `:1:12: profiles: a key must be a string; quote it`,
	"profiles: {p: {permissions: {preset: 1}}}":                  `:1:38: profiles.p.permissions.preset: want a string, got a number`,
	"profiles: {p: {permissions: {inheritPermissions: 'true'}}}": `:1:50: profiles.p.permissions.inheritPermissions: want true or false, got a string`,
	// Names that no tool can have.
	"engine: {deny: [{tool: ''}]}":                              `:1:24: engine.deny[0].tool: no tool can be named "": want 1 to 64 of a-z, A-Z, 0-9, _ and -`,
	"engine: {deny: [{tool: 'mcp__*'}]}":                        `:1:24: engine.deny[0].tool: no tool can be named "mcp__*": want 1 to 64 of a-z, A-Z, 0-9, _ and -`,
	"engine: {deny: [{tool: [a, 'rm\u202e']}]}":                 `:1:28: engine.deny[0].tool[1]: no tool can be named "rm\u202e": want 1 to 64 of a-z, A-Z, 0-9, _ and -`,
	"engine: {deny: [{tool: \"a\\nb\"}]}":                       `:1:24: engine.deny[0].tool: no tool can be named "a\nb": want 1 to 64 of a-z, A-Z, 0-9, _ and -`,
	"engine: {vetted: [{tool: 'a b', argv: ls}]}":               `:1:26: engine.vetted[0].tool: no tool can be named "a b": want 1 to 64 of a-z, A-Z, 0-9, _ and -`,
	"engine: {deny: [{tool: " + strings.Repeat("x", 65) + "}]}": `:1:24: engine.deny[0].tool: no tool can be named "` + strings.Repeat("x", 65) + `": want 1 to 64 of a-z, A-Z, 0-9, _ and -`,
	// Written twice.
	"profiles:\n  p: {}\n  p: {}":                                  `:3:3: mapping key "p" already defined at [2:3]`,
	"profiles: {p: {}, 'p': {}}":                                   `:1:19: mapping key "p" already defined at [1:12]`,
	"profiles: {}\nprofiles: {}":                                   `:2:1: mapping key "profiles" already defined at [1:1]`,
	"engine: {deny: [{tool: x, tool: y}]}":                         `:1:27: mapping key "tool" already defined at [1:18]`,
	"profiles: {p: {permissions: {preset: open, preset: strict}}}": `:1:44: mapping key "preset" already defined at [1:30]`,
	// Inline tests that fail.
	"engine: {deny: [{risk: write, tests: {match: read}}]}":                                                                               `:1:46: engine.deny[0].tests.match: "read" does not match {risk: write}`,
	"engine: {ask: [{tool: [a, b], tests: {notMatch: [c, b]}}]}":                                                                          `:1:53: engine.ask[0].tests.notMatch[1]: "b" matches {tool: [a, b]}`,
	"engine: {ask: [{tool: f, domains: '*.a.b', tests: {match: a.b}}]}":                                                                   `:1:59: engine.ask[0].tests.match: "a.b" does not match {tool: f, domains: "*.a.b"}`,
	"engine:\n  ask:\n    - tool: shell\n      argv: rm -rf **\n      tests:\n        match:\n          - rm -rf x\n          - rm -fr x": `:8:13: engine.ask[0].tests.match[1]: "rm -fr x" does not match {tool: shell, argv: "rm -rf **"}`,
	// Bytes that no editor shows, and YAML that says more than a reader sees.
	"engine: {deny: [{tool: x, reason: \"a\x1b[31m\"}]}": `:1:37: control character U+001B`,
	"engine: {deny: [{tool: x, reason: a\x00b}]}":        `:1:36: control character U+0000`,
	"engine: {}\r# x\n":             `:1:11: control character U+000D`,
	"engine: \u0085{}":              `:1:9: control character U+0085`,
	"\xff\xfee\x00n\x00":            `:1:1: is not UTF-8`,
	"\ufeff\ufeffengine: {}":        "`:1:1: unknown key \"\\ufeffengine\"; one of engine, profiles, models, mcp, worker",
	"\ufeff":                        `: is empty`,
	"---\n...\n":                    `: is empty`,
	"~":                             `:1:1: is empty, want a mapping`,
	"engine: {}\n---\nengine: {}\n": `:3:1: a second document; one file holds one`,
	"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]\n": `:1:4: an anchor; write the value out`,
	"engine: !include x.yaml":                                 `:1:9: a tag; write a plain value, or quote a string that begins with !`,
	"engine:\n  deny:\n\t- tool: x":                           `:3:1: a tab; indent and separate with spaces`,
	"engine:\n  deny:\n  -\ttool: x":                          `:3:8: a tab; indent and separate with spaces`,
	"engine: {deny: [{tool: x}]":                              `:1:9: could not find flow mapping end token '}'`,
	"engine: }":                                               `:1:9: engine: want a mapping, got a string`,
	"engine:\n deny: []\n  ask: []":                           `:3:3: value is not allowed in this context`,
}

func TestBadSiblings(t *testing.T) {
	for text, want := range badSiblings {
		name, _, _ := strings.Cut(text, "\n")
		t.Run(name[:min(len(name), 60)], func(t *testing.T) {
			f, err := config.Parse("p.yaml", []byte(text))
			require.Error(t, err)
			assert.Nil(t, f, "never half-loaded")
			assert.Equal(t, "p.yaml"+strings.TrimPrefix(want, "`"), err.Error())
			assert.True(t, fault.IsConfig(err))
		})
	}
}

// Files made to hurt, from the disk as well: each is one error, and none costs more than its size.
func TestHostileFiles(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for i := range 20 {
		name, last := string(rune('b'+i)), string(rune('a'+i))
		bomb += name + ": &" + name + " [" + strings.Repeat("*"+last+", ", 8) + "*" + last + "]\n"
	}
	nested := ""
	for i := range 1000 {
		nested += strings.Repeat(" ", i) + "a:\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"10 MB of rules":        {"engine: {deny: [" + strings.Repeat("{tool: x}, ", 1<<20) + "]}", ": is larger than 1 MiB"},
		"10 MB of one line":     {strings.Repeat("x", 10<<20), ": is larger than 1 MiB"},
		"bomb":                  {bomb, ":1:4: an anchor; write the value out"},
		"100,000 flow lists":    {"engine: " + strings.Repeat("[", 100_000), ":1:41: nested too deep"},
		"100,000 closed lists":  {"engine: " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), ":1:41: nested too deep"},
		"100,000 flow mappings": {strings.Repeat("{a: ", 100_000), ":1:129: nested too deep"},
		"100,000 dashes":        {strings.Repeat("- ", 100_000), ":1:17: nested too deep"},
		"1000 indents":          {nested, ":257:258: nested too deep"},
		"30,000 quotes":         {strings.Repeat("'a' ", 30_000), ""},
		"30,000 keys":           {strings.Repeat("a: ", 30_000), ""},
		"a key of 1 MB":         {strings.Repeat("k", 1<<20-4) + ": x", ""},
		"30,000 words":          {"engine: {deny: [" + strings.Repeat("a, ", 30_000), ""},
		"30,000 empty lists":    {"engine: {deny: " + strings.Repeat("[] ", 30_000), ""},
		"100,000 documents":     {strings.Repeat("---\n", 100_000), ""},
		"100,000 comments":      {strings.Repeat("#\n", 100_000), ": is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "p.yaml")
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			_, err := config.Load(path)
			require.Error(t, err)
			require.True(t, fault.IsConfig(err))
			if c.want != "" {
				require.EqualError(t, err, path+c.want)
			}
			require.Less(t, len(err.Error()), 2<<20)
			f, all := config.Check(path)
			require.Nil(t, f)
			require.Len(t, all, 1)
			require.EqualError(t, all[0], err.Error())
		})
	}
}

func check(t *testing.T, text string) (*config.File, []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	f, errs := config.Check(path)
	var out []string
	for _, e := range errs {
		require.Equal(t, path, e.File)
		e.File = "p.yaml"
		out = append(out, e.Error())
	}
	if len(out) > 0 {
		require.Nil(t, f)
	}
	return f, out
}

// Check goes on after an error, and an error that only follows from another is none.
func TestCheckReportsAll(t *testing.T) {
	_, got := check(t, `
engine:
  denny: []
  deny:
    - {tools: shell, reson: x}
    - {risk: destrutive}
    - {tool: [shell, 5], argv: "rm ** x"}
    - {tool: shell, risk: read}
    - {tool: shell, argv: ["rm ** x"]}
    - {tool: shell, argv: rm **, tests: {match: ls}}
    - {risk: read}
  vetted: [{tool: shell}, {tool: shell, argv: 5}, {tool: a b, argv: x}]
  approval: {deadline: 0s, remind: soon}
profiles:
  p: {permissions: {preset: lax, attestation: {toolsetHash: x, authorityHash: y}}, isolation: {kind: tree}, limits: {maxTurns: 0}}
  q: {permissions: {preset: open, ask: [{risk: x}, {tool: y, approval: {approvers: {groups: [ops]}}}]}, modell: a:b}
worker: {taskqueue: x}
`)
	require.Equal(t, []string{
		`p.yaml:3:3: engine: unknown key "denny", did you mean "deny"; one of deny, ask, vetted, strictApprovals, approval, groups, keys`,
		`p.yaml:5:8: engine.deny[0]: unknown key "tools", did you mean "tool"; one of tool, risk, argv, domains, approval, tests, reason`,
		`p.yaml:5:22: engine.deny[0]: unknown key "reson", did you mean "reason"; one of tool, risk, argv, domains, approval, tests, reason`,
		`p.yaml:6:14: unknown risk "destrutive"; one of read, write, network, execute, destructive, undeclared`,
		`p.yaml:7:22: engine.deny[2].tool[1]: want a string, got a number`,
		`p.yaml:8:7: engine.deny[3]: a rule names tools or risks, not both`,
		`p.yaml:9:28: engine.deny[4].argv[0]: bad argv pattern: pattern "rm ** x": byte 3: ** is not last`,
		`p.yaml:10:49: engine.deny[5].tests.match: "ls" does not match {tool: shell, argv: "rm **"}`,
		`p.yaml:12:12: engine.vetted[0]: a vetted line needs tool and argv`,
		`p.yaml:12:47: engine.vetted[1].argv: want a string or a list of strings, got a number`,
		`p.yaml:12:58: engine.vetted[2].tool: no tool can be named "a b": want 1 to 64 of a-z, A-Z, 0-9, _ and -`,
		`p.yaml:13:24: engine.approval.deadline: duration "0s" is not more than zero`,
		`p.yaml:13:36: engine.approval.remind: bad duration "soon", want one such as 90s, 30m or 48h`,
		`p.yaml:15:29: unknown preset "lax"; one of strict, standard, open`,
		`p.yaml:15:61: profiles.p.permissions.attestation.toolsetHash: bad hash, want the 64 lower-case hex digits of a sha256`,
		`p.yaml:15:79: profiles.p.permissions.attestation.authorityHash: bad hash, want the 64 lower-case hex digits of a sha256`,
		`p.yaml:15:102: unknown isolation kind "tree"; one of none, readonly, worktree`,
		`p.yaml:15:128: profiles.p.limits.maxTurns: 0 is less than 1`,
		`p.yaml:16:48: unknown risk "x"; one of read, write, network, execute, destructive, undeclared`,
		`p.yaml:16:105: profiles.q: unknown key "modell", did you mean "model"; one of description, system, model, tools, permissions, isolation, limits, budgetUSD, output`,
	}, got, "twenty at most")

	_, got = check(t, "engine:\n  ask: [{tool: y, approval: {approvers: {groups: [ops]}}}, {tool: z, approval: {approvers: {groups: [ops]}}}]\n"+
		"profiles: {p: {permissions: {approval: {deadline: 1h, remind: 2h}, deny: [{risk: x}]}}}\nx: 1")
	require.Len(t, got, 5, got)
	_, got = check(t, "engine: {deny: ["+strings.Repeat("{risk: x}, ", 20_000)+"]}")
	require.Len(t, got, 20)
	_, got = check(t, "engine: {deny: [}")
	require.Len(t, got, 1)
	_, errs := config.Check("none.yaml")
	require.Len(t, errs, 1)
	require.EqualError(t, errs[0], "none.yaml: cannot be read: no such file or directory")

	f, got := check(t, "engine: {deny: [{risk: read, tests: {match: read, notMatch: [write, execute]}}], vetted: [{tool: x, argv: ls}]}\nprofiles: {p: {permissions: {ask: [{tool: y}]}}, q: {}}")
	require.Empty(t, got)
	require.Equal(t, config.Size{Profiles: 2, Rules: 2, Vetted: 1, Tests: 3}, f.Size())
}

// Whatever Load refuses Check refuses, with the same first error among its own; what Load takes Check takes.
func TestCheckAgreesWithLoad(t *testing.T) {
	for _, table := range []map[string]string{badForm, badPolicy, badProfile, badWorker, badSiblings} {
		for text := range table {
			_, first := config.Parse("p.yaml", []byte(text))
			_, all := check(t, text)
			require.Contains(t, all, first.Error(), text)
		}
	}
	f, errs := config.Check("testdata/assent.yaml")
	require.Empty(t, errs)
	loaded, err := config.Load("testdata/assent.yaml")
	require.NoError(t, err)
	require.Equal(t, loaded.Profiles, f.Profiles)
}

// firstParty are the tools that a command knows without a worker.
func firstParty(t *testing.T) (infos []tool.Info, sets map[string][]string) {
	t.Helper()
	defs, err := toolbox.All(toolbox.Config{})
	require.NoError(t, err)
	for _, d := range defs {
		infos = append(infos, d.Info())
	}
	sets = map[string][]string{}
	for _, d := range toolbox.Files() {
		sets[toolbox.FilesSet] = append(sets[toolbox.FilesSet], d.Name())
	}
	return infos, sets
}

func TestLintHasPlaces(t *testing.T) {
	f, errs := check(t, `
profiles:
  b:
    permissions:
      vetted: [{tool: shell, argv: [ls, "bash -c **"]}]
  a:
    tools: [files, shel]
    isolation: readonly
    permissions:
      preset: open
      deny:
        - tool: shell
          argv: "rm -rf **"
engine:
  ask: [{tool: shell}, {tool: shell}]
`)
	require.Empty(t, errs)
	tools, sets := firstParty(t)
	var got []string
	for _, w := range f.Lint(tools, sets) {
		require.NotEmpty(t, w.Kind)
		w.File = filepath.Base(w.File)
		got = append(got, w.String())
	}
	require.Equal(t, []string{
		`p.yaml:5:41: warning: profiles.b.permissions.vetted[0].argv[1]: "bash -c **": bash runs any text with -c, and any script`,
		`p.yaml:7:13: warning: profiles.a.tools[0]: readonly isolation always denies write_file, edit_file, delete_file, which the model is offered all the same`,
		`p.yaml:7:20: warning: profiles.a.tools[1]: no tool is known as shel, did you mean shell`,
		`p.yaml:10:15: warning: profiles.a.permissions.preset: under preset open a tool that declares no risk runs unasked; {risk: undeclared} in ask or deny covers it`,
		`p.yaml:13:17: warning: profiles.a.permissions.deny[0].argv: is literal: the same options in another order or spelling are not denied; ask for "rm **", or deny it`,
		`p.yaml:15:24: warning: engine.ask[1]: never decides: engine.ask[0] {tool: shell} asks first`,
	}, got)
}

// The policy that we show has nothing that a reviewer would ask about.
func TestShownPoliciesAreClean(t *testing.T) {
	tools, sets := firstParty(t)
	for _, path := range []string{"../examples/policy/policy.yaml"} {
		f, errs := config.Check(path)
		require.Empty(t, errs)
		require.Empty(t, f.Lint(tools, sets), path)
	}
}

func TestWarningIsPlainData(t *testing.T) {
	b, err := json.Marshal(config.Warning{File: "f", Line: 1, Column: 2, Finding: permission.Finding{Key: "k", Kind: permission.FindLimit, Message: "m"}})
	require.NoError(t, err)
	require.JSONEq(t, `{"file":"f","line":1,"column":2,"key":"k","kind":"limit","message":"m"}`, string(b))
}
