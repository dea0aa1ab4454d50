package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
)

// bad files in form, with the message after "p.yaml".
var badForm = map[string]string{
	"":                               `: is empty`,
	"# nothing\n":                    `: is empty`,
	"- a":                            `:1:1: want a mapping, got a list`,
	"a":                              `:1:1: want a mapping, got a string`,
	"engin: {}":                      `:1:1: unknown key "engin", did you mean "engine"; one of engine, profiles, models, mcp, worker`,
	"x: {}":                          `:1:1: unknown key "x"; one of engine, profiles, models, mcp, worker`,
	strings.Repeat("x", 70) + ": {}": `:1:1: unknown key "` + strings.Repeat("x", 70) + `"; one of engine, profiles, models, mcp, worker`,
	"x: {}\ny: {}":                   `:1:1: unknown key "x"; one of engine, profiles, models, mcp, worker`,
	"5: {}":                          `:1:1: a key must be a string; quote it`,
	"engine:\n":                      `:1:9: engine: is empty, want a mapping`,
	"engine: {}\nengine: {}":         `:2:1: mapping key "engine" already defined at [1:1]`,
	"engine: {}\n---\nx: {}":         `:3:1: a second document; one file holds one`,
	"engine: &a {}":                  `:1:9: an anchor; write the value out`,
	"engine: *a":                     `:1:9: an alias; write the value out, or quote a string that begins with *`,
	"engine: {<<: {}}":               `:1:10: a merge key; write the values out`,
	"engine: !!map {}":               `:1:9: a tag; write a plain value, or quote a string that begins with !`,
	"%YAML 1.2\n---\na: b":           `:1:1: a directive`,
	"? engine\n: {}":                 "`:1:1: a complex key; write `key: value`",
	"engine:\n\tdeny: []":            `:2:1: a tab; indent and separate with spaces`,
	"engine:\t{}":                    `:1:8: a tab; indent and separate with spaces`,
	"engine: \t'a'":                  `:1:9: a tab; indent and separate with spaces`,
	"engine: {deny: [\"a\tb\"]}":     `:1:23: ',' or ']' must be specified; the line holds a tab`,
	"engine: [x":                     `:1:9: sequence end token ']' not found`,
	"engine: \x00":                   `:1:9: control character U+0000`,
	"engine: a\u2028b":               `:1:10: control character U+2028`,
	"engine: \xff":                   `:1:9: is not UTF-8`,
	"engine: \ufffd":                 `:1:9: engine: want a mapping, got a string`,
	"engine: " + strings.Repeat("[", 40) + strings.Repeat("]", 40): `:1:41: nested too deep`,
	strings.Repeat("- ", 20000):                                    `:1:17: nested too deep`,
	"engine:\n" + strings.Repeat(" ", 300) + "deny: []":            `:2:305: nested too deep`,
}

var badPolicy = map[string]string{
	"engine: {deny: {}}":                                                         `:1:16: engine.deny: want a list of rules, got a mapping`,
	"engine: {deny: ~}":                                                          `:1:16: engine.deny: is empty, want a list of rules`,
	"engine: {deny: [x, y]}":                                                     `:1:17: engine.deny[0]: want a mapping, got a string`,
	"engine: {deny: [{tool: 5}]}":                                                `:1:24: engine.deny[0].tool: want a string or a list of strings, got a number`,
	"engine: {deny: [{tool: [a, true]}]}":                                        `:1:28: engine.deny[0].tool[1]: want a string, got a boolean`,
	"engine: {deny: [{tool: {a: b}}]}":                                           `:1:24: engine.deny[0].tool: want a string or a list of strings, got a mapping; quote text that holds a colon`,
	"engine: {deny: [{tool: []}]}":                                               `:1:24: engine.deny[0].tool: is empty`,
	"engine: {deny: [{tool: 'a b'}]}":                                            `:1:24: engine.deny[0].tool: no tool can be named "a b": want 1 to 64 of a-z, A-Z, 0-9, _ and -`,
	"engine: {deny: [{tool: x, risk: read}]}":                                    `:1:17: engine.deny[0]: a rule names tools or risks, not both`,
	"engine:\n  deny:\n    - risk: read\n      tool: x":                          `:3:7: engine.deny[0]: a rule names tools or risks, not both`,
	"engine: {deny: [{}]}":                                                       `:1:17: engine.deny[0]: a rule needs tool or risk`,
	"engine: {deny: [{tools: x}]}":                                               `:1:18: engine.deny[0]: unknown key "tools", did you mean "tool"; one of tool, risk, argv, domains, approval, tests, reason`,
	"engine: {deny: [{tool: x, argv: rm ** y}]}":                                 `:1:33: engine.deny[0].argv: bad argv pattern: pattern "rm ** y": byte 3: ** is not last`,
	"engine: {deny: [{tool: x, reason: ' '}]}":                                   `:1:35: engine.deny[0].reason: is empty`,
	"engine: {deny: [{tool: x, argv: rm **, tests: {match: ls}}]}":               `:1:55: engine.deny[0].tests.match: "ls" does not match {tool: x, argv: "rm **"}`,
	"engine: {deny: [{tool: x, argv: rm **, tests: {notMatch: [ls, rm]}}]}":      `:1:63: engine.deny[0].tests.notMatch[1]: "rm" matches {tool: x, argv: "rm **"}`,
	"engine: {allow: []}":                                                        `:1:10: engine: unknown key "allow"; one of deny, ask, vetted, strictApprovals, approval, groups, keys`,
	"engine: {preset: strict}":                                                   `:1:10: engine: unknown key "preset"; one of deny, ask, vetted, strictApprovals, approval, groups, keys`,
	"engine: {strictApprovals: yes}":                                             `:1:27: engine.strictApprovals: want true or false, got a string`,
	"engine: {vetted: [{tool: x}]}":                                              `:1:19: engine.vetted[0]: a vetted line needs tool and argv`,
	"engine: {approval: {deadline: 5}}":                                          `:1:31: engine.approval.deadline: want a duration such as 90s, 30m or 48h, got a number`,
	"engine: {approval: {deadline: 2 days}}":                                     `:1:31: engine.approval.deadline: bad duration "2 days", want one such as 90s, 30m or 48h`,
	"engine: {approval: {deadline: 0s}}":                                         `:1:31: engine.approval.deadline: duration "0s" is not more than zero`,
	"engine: {approval: {deadline: 1h, remind: 2h}}":                             `:1:43: engine.approval.remind: is not before the deadline`,
	"engine: {approval: {approvers: {min: 0}}}":                                  `:1:38: engine.approval.approvers.min: 0 is less than 1`,
	"engine: {approval: {approvers: {groups: [ops]}}}":                           `:1:42: unknown group "ops"; engine.groups names none`,
	"engine: {approval: {escalate: {after: 1h, groups: [x]}}, groups: {a: [b]}}": `:1:52: unknown group "x"; one of a`,
	"engine: {groups: {a: [b]}, ask: [{tool: x, approval: {approvers: {groups: [a], min: 2}}}]}":                           `:1:85: engine.ask[0].approval.approvers.min: the groups have 1 members, 2 must answer`,
	"engine: {groups: {a: []}, approval: {approvers: {groups: [a]}}}":                                                      `:1:49: engine.approval.approvers.min: the groups have 0 members, 1 must answer`,
	"engine: {groups: {a: [b], c: [b]}, approval: {approvers: {groups: [a], min: 2}, escalate: {after: 1h, groups: [c]}}}": `:1:77: engine.approval.approvers.min: the groups have 1 members, 2 must answer`,
	"engine: {groups: [a]}":               `:1:18: engine.groups: want a mapping of groups, got a list`,
	"engine: {groups: {a: [b, b]}}":       `:1:26: engine.groups.a[1]: "b" stands twice`,
	"engine: {keys: {a: ssh-rsa}}":        `:1:20: engine.keys.a: bad public key, want ed25519: and 32 bytes in base64`,
	"engine: {keys: {a: 'ed25519:AAAA'}}": `:1:20: engine.keys.a: bad public key, want ed25519: and 32 bytes in base64`,
}

var badModels = map[string]string{
	"models: {prices: []}":                                  `:1:18: models.prices: want a mapping of prices, got a list`,
	"models: {prices: {gpt: {free: true}}}":                 `:1:19: models.prices: "gpt" is not provider:model such as openai:gpt-5.2`,
	"models: {prices: {'a:x': {inputs: 1}}}":                `:1:27: models.prices.a:x: unknown key "inputs", did you mean "input"; one of input, cachedInput, cacheWrite, output, longAbove, long, contextWindow, maxOutput, free, asOf, source`,
	"models: {prices: {'a:x': {input: -1}}}":                `:1:34: models.prices.a:x.input: -1 is no number of at least zero`,
	"models: {prices: {'a:x': {input: .nan}}}":              `:1:34: models.prices.a:x.input: want a number, got a number`,
	"models: {prices: {'a:x': {input: lots}}}":              `:1:34: models.prices.a:x.input: want a number, got a string`,
	"models: {prices: {'a:x': {input: 1}}}":                 `:1:26: models.prices.a:x.output: is missing: what costs for input costs for output`,
	"models: {prices: {'a:x': {asOf: now}}}":                `:1:33: models.prices.a:x.asOf: bad day "now", want one such as ` + model.PricesAsOf,
	"models: {prices: {'a:x': {contextWindow: 5}}}":         `:1:42: models.prices.a:x.contextWindow: 5 is out of range; at least 1000 tokens`,
	"models: {compactAt: 2}":                                `:1:21: models.compactAt: 2 is out of range; 0.1 to 0.95`,
	"models: {stream: 10ms}":                                `:1:18: models.stream: "10ms" is not off or a duration from 100ms to 1m`,
	"models: {stream: true}":                                `:1:18: models.stream: want off or a duration from 100ms to 1m, got a boolean`,
	"models: {compactAt: half}":                             `:1:21: models.compactAt: want a number, got a string`,
	"profiles: {p: {output: text}}":                         `:1:24: profiles.p.output: want a JSON Schema, got a string`,
	"profiles: {p: {output: {type: array}}}":                `:1:24: profiles.p.output: must be an object schema: "type": "object" at the top`,
	"profiles: {p: {output: {type: object, pattern: '('}}}": `:1:24: profiles.p.output: is not a usable JSON Schema: "/pattern": '(' is not valid regex: error parsing regexp: missing closing ): ` + "`(`",
	"profiles: {p: {budgetUSD: .inf}}":                      `:1:27: profiles.p.budgetUSD: want an amount in USD, got a number`,
	"profiles: {p: {budgetUSD: 2000000}}":                   `:1:27: profiles.p.budgetUSD: 2000000 is more than 1000000`,
}

var badProfile = map[string]string{
	"profiles: {' ': {}}":                               `:1:12: profiles: " " cannot be the name of a profile`,
	"profiles: {p: []}":                                 `:1:15: profiles.p: want a mapping, got a list`,
	"profiles: {p: {permisions: {}}}":                   `:1:16: profiles.p: unknown key "permisions", did you mean "permissions"; one of description, system, model, tools, permissions, isolation, limits, budgetUSD, output`,
	"profiles: {p: {model: gpt}}":                       `:1:23: profiles.p.model: bad model "gpt", want provider:model such as openai:gpt-5.2`,
	"profiles: {p: {model: []}}":                        `:1:23: profiles.p.model: is empty`,
	"profiles: {p: {model: [':x']}}":                    `:1:24: profiles.p.model[0]: bad model ":x", want provider:model such as openai:gpt-5.2`,
	"profiles: {p: {model: 5}}":                         `:1:23: profiles.p.model: want a model or a list of models, got a number`,
	"profiles: {p: {model: [a:b]}}":                     `:1:24: profiles.p.model[0]: want a string, got a mapping; quote text that holds a colon`,
	"profiles: {p: {tools: shell}}":                     `:1:23: profiles.p.tools: want a list of strings, got a string`,
	"profiles: {p: {tools: [a, a]}}":                    `:1:27: profiles.p.tools[1]: "a" stands twice`,
	"profiles: {p: {permissions: {preset: lax}}}":       `:1:38: unknown preset "lax"; one of strict, standard, open`,
	"profiles: {p: {permissions: {preset: ''}}}":        `:1:38: unknown preset ""; one of strict, standard, open`,
	"profiles: {p: {permissions: {deny: [{risk: x}]}}}": `:1:44: unknown risk "x"; one of read, write, network, execute, destructive, undeclared`,
	"profiles: {p: {permissions: {ask: [{tool: x, approval: {approvers: {groups: [g]}}}]}}}":      `:1:78: unknown group "g"; engine.groups names none`,
	"profiles: {p: {permissions: {attestation: {}}}}":                                             `:1:43: profiles.p.permissions.attestation: toolsetHash is missing`,
	"profiles: {p: {permissions: {attestation: {toolsetHash: x}}}}":                               `:1:57: profiles.p.permissions.attestation.toolsetHash: bad hash, want the 64 lower-case hex digits of a sha256`,
	"profiles: {p: {permissions: {attestation: {tools: {x: {}}}}}}":                               `:1:55: profiles.p.permissions.attestation.tools.x: contract is missing`,
	"profiles: {p: {isolation: worktre}}":                                                         `:1:27: unknown isolation kind "worktre"; one of none, readonly, worktree`,
	"profiles: {p: {isolation: {kind: 5}}}":                                                       `:1:34: profiles.p.isolation.kind: want a string, got a number`,
	"profiles: {p: {isolation: {repo: a}}}":                                                       `:1:27: profiles.p.isolation: kind is missing`,
	"profiles: {p: {isolation: {kind: none, repo: a}}}":                                           `:1:27: profiles.p.isolation: repo, ref and private need kind worktree`,
	"profiles: {p: {isolation: {kind: readonly, private: true}}}":                                 `:1:27: profiles.p.isolation: repo, ref and private need kind worktree`,
	"profiles: {p: {isolation: {kind: worktree, private: yes}}}":                                  `:1:53: profiles.p.isolation.private: want true or false, got a string`,
	"profiles: {p: {isolation: {kind: worktree, ref: --force}}}":                                  `:1:27: profiles.p.isolation: "--force" is no git revision`,
	"profiles: {p: {isolation: {kind: worktree, repo: b}}}\nworker: {worktrees: {repos: {a: b}}}": `:1:50: unknown repository "b"; one of a`,
	"profiles:\n  p:\n    model: scripted:x\nmodels: {scripted: {scripts: {y: z}}}":               `:3:12: unknown script "x"; one of y`,
	"profiles: {p: {limits: {maxTurns: 0}}}":                                                      `:1:35: profiles.p.limits.maxTurns: 0 is less than 1`,
	"profiles: {p: {limits: {maxTurns: 1.5}}}":                                                    `:1:35: profiles.p.limits.maxTurns: want a whole number, got a number`,
	"profiles: {p: {limits: {maxTurns: 0x10}}}":                                                   `:1:35: profiles.p.limits.maxTurns: 0x10 is no whole number in plain decimal digits`,
	"profiles: {p: {limits: {maxTurns: 5000}}}":                                                   `:1:35: profiles.p.limits.maxTurns: 5000 is out of range; 1 to 1000, or 0 for the default`,
	"profiles: {p: {limits: {wallClock: soon}}}":                                                  `:1:36: profiles.p.limits.wallClock: bad duration "soon", want one such as 90s, 30m or 48h`,
	"profiles: {p: {budgetUSD: 0}}":                                                               `:1:27: profiles.p.budgetUSD: 0 is no amount of more than zero`,
	"profiles: {p: {budgetUSD: .inf}}":                                                            `:1:27: profiles.p.budgetUSD: want an amount in USD, got a number`,
	"profiles: {p: {budgetUSD: [1]}}":                                                             `:1:27: profiles.p.budgetUSD: want an amount in USD, got a list`,
}

var badWorker = map[string]string{
	"worker: {taskQueue: ''}":                                                    `:1:21: worker.taskQueue: is empty`,
	"worker: {address: localhost}":                                               `:1:19: worker.address: bad address "localhost", want host:port`,
	"worker: {dir: ~/x}":                                                         `:1:15: worker.dir: ~ is not expanded; write the path out`,
	"worker: {deployment: v1}":                                                   `:1:22: worker.deployment: want a mapping, got a string`,
	"worker: {deployment: {}}":                                                   `:1:22: worker.deployment: name is missing`,
	"worker: {deployment: {name: a}}":                                            `:1:22: worker.deployment: buildId is missing`,
	"worker: {deployment: {name: a, buildId: 12}}":                               `:1:41: worker.deployment.buildId: want a string, got a number`,
	"worker: {deployment: {name: a, buildID: x}}":                                `:1:32: worker.deployment: unknown key "buildID", did you mean "buildId"; one of name, buildId, behavior`,
	"worker: {deployment: {name: a.b, buildId: x}}":                              `:1:29: worker.deployment.name: "a.b" holds one of ".:", which separate it from the build id`,
	"worker: {deployment: {name: __a, buildId: x}}":                              `:1:29: worker.deployment.name: "__a" begins with __, which is the server's`,
	"worker: {deployment: {name: a, buildId: __x}}":                              `:1:41: worker.deployment.buildId: "__x" begins with __, which is the server's`,
	"worker: {deployment: {name: a, buildId: " + strings.Repeat("x", 201) + "}}": `:1:41: worker.deployment.buildId: has 201 bytes, at most 200 fit`,
	"worker: {deployment: {name: a, buildId: x, behavior: upgrade}}":             `:1:54: unknown behavior "upgrade"; one of pinned, autoUpgrade`,
	"worker: {worktrees: {pinCap: -1}}":                                          `:1:30: worker.worktrees.pinCap: -1 is negative`,
	"worker: {worktrees: {minFree: 5 GB}}":                                       `:1:31: worker.worktrees.minFree: bad size "5 GB", want bytes, or KiB, MiB, GiB or TiB such as 512MiB`,
	"worker: {worktrees: {maxBytes: -1}}":                                        `:1:32: worker.worktrees.maxBytes: -1 is negative`,
	"worker: {worktrees: {minFree: []}}":                                         `:1:31: worker.worktrees.minFree: want a number of bytes such as 512MiB, got a list`,
	"worker: {worktrees: {private: all}}":                                        `:1:31: worker.worktrees.private: want true, false or a list of repositories, got a string`,
	"worker: {worktrees: {private: [b], repos: {a: x}}}":                         `:1:32: unknown repository "b"; one of a`,
	"worker: {worktrees: {private: [b]}}":                                        `:1:32: unknown repository "b"`,
	"worker: {worktrees: {private: [a, a], repos: {a: x}}}":                      `:1:35: worker.worktrees.private[1]: "a" stands twice`,
	"worker: {worktrees: {repos: {'': x}}}":                                      `:1:30: worker.worktrees.repos: a name is empty`,
	"worker: {worktrees: {git: ''}}":                                             `:1:27: worker.worktrees.git: is empty`,
	"worker: {worktrees: {git: ~/bin/git}}":                                      `:1:27: worker.worktrees.git: ~ is not expanded; write the path out`,
	"worker: {worktrees: {git: true}}":                                           `:1:27: worker.worktrees.git: want a string, got a boolean`,
	"worker: {worktrees: {filters: lfs}}":                                        `:1:31: worker.worktrees.filters: want a list of strings, got a string`,
	"worker: {worktrees: {git: /g, filters: [lfs, lfs]}}":                        `:1:46: worker.worktrees.filters[1]: "lfs" stands twice`,
	"worker: {worktrees: {git: /g, filters: ['a b']}}":                           `:1:41: worker.worktrees.filters[0]: "a b" is no name of a filter`,
	"worker: {worktrees: {filters: [lfs]}}":                                      `:1:21: worker.worktrees: filters need git, the path of the binary that runs them`,
	"worker: {fetch: {allow: [10.0.0.0/33]}}":                                    `:1:26: worker.fetch.allow[0]: bad host "10.0.0.0/33", want a host name, an IP address or a CIDR prefix`,
	"worker: {fetch: {allow: [10.0.0.1/8]}}":                                     `:1:26: worker.fetch.allow[0]: bad prefix "10.0.0.1/8", want 10.0.0.0/8`,
	"worker: {fetch: {allow: [a.test, 127.1.]}}":                                 `:1:34: worker.fetch.allow[1]: bad host "127.1.", want a host name, an IP address or a CIDR prefix`,
	"worker: {fetch: {allow: ['*.a.test']}}":                                     `:1:26: worker.fetch.allow[0]: bad host "*.a.test", want a host name, an IP address or a CIDR prefix`,
	"worker: {fetch: {allow: ['fe80::1%eth0']}}":                                 `:1:26: worker.fetch.allow[0]: bad host "fe80::1%eth0", want a host name, an IP address or a CIDR prefix`,
	"worker: {fetch: {allow: a.test}}":                                           `:1:25: worker.fetch.allow: want a list of hosts, got a string`,
	"worker: {fetch: {allow: [5]}}":                                              `:1:26: worker.fetch.allow[0]: want a string, got a number`,
	"worker: {shell: {engine: bash}}":                                            `:1:26: unknown shell engine "bash"; one of interp, sh`,
	"worker: {shell: {env: {A-B: x}}}":                                           `:1:24: worker.shell.env: bad name of a variable`,
	"worker: {shell: {env: {A: 5}}}":                                             `:1:27: worker.shell.env.A: want a string, got a number`,
	"models: {scripted: {scripts: {x: 5}}}":                                      `:1:34: models.scripted.scripts.x: want a string, got a number`,
}

func TestBadFiles(t *testing.T) {
	for _, table := range []map[string]string{badForm, badPolicy, badModels, badProfile, badWorker, badMCP} {
		for text, want := range table {
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
}

// What costs the parser the square of its length is refused before it is parsed; without that this test does not end.
func TestHostileFilesAreCheap(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("[", 1<<16), strings.Repeat("{a: ", 1<<16/4), strings.Repeat("- ", 1<<16/2),
		strings.Repeat("a: ", 1<<16/3), strings.Repeat("? ", 1<<16/2), strings.Repeat("&a ", 1<<16/3),
	} {
		_, err := config.Parse("p.yaml", []byte(text))
		assert.Error(t, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, table := range []map[string]string{badForm, badPolicy, badProfile, badWorker, badMCP} {
		for text := range table {
			if len(text) < 1000 {
				f.Add(text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := config.Parse("p.yaml", []byte(text))
		if err != nil {
			require.Nil(t, file)
			var c *fault.ConfigError
			require.ErrorAs(t, err, &c)
			require.NotContains(t, c.Msg, "cannot be parsed")
			return
		}
		for name, p := range file.Profiles {
			require.NoError(t, p.Permissions.Check(name))
			require.Positive(t, p.Limits.MaxTurns)
		}
		require.NoError(t, file.Engine.Check("engine"))
	})
}
