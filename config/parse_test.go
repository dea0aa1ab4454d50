package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model/endpoint"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

func TestEveryKey(t *testing.T) {
	f, err := config.Load("testdata/assent.yaml")
	require.NoError(t, err)
	dir, err := filepath.Abs("testdata")
	require.NoError(t, err)
	hash := "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	budget, two := 2.5, 2.0

	ops := permission.Rule{Tool: permission.Many("deploy_service", "send_email"),
		Approval: &permission.ApprovalPolicy{Deadline: time.Hour, Approvers: &permission.Approvers{Groups: []string{"ops"}, Min: 2}}}
	assert.Equal(t, "testdata/assent.yaml", f.Path)
	assert.Equal(t, permission.Layer{
		Deny: []permission.Rule{
			{Risk: permission.One("destructive"), Reason: "nothing is deleted here"},
			{Tool: permission.One("shell"), Argv: permission.Many("rm -rf **", "git push --force **"),
				Tests: &permission.RuleTests{Match: permission.Many("rm -rf /", "cd x && rm -rf y"), NotMatch: permission.One("rm x")}},
		},
		Ask: []permission.Rule{ops, {Risk: permission.One("undeclared")},
			{Tool: permission.One("fetch"), Domains: permission.Many("*.example.com", "example.org"),
				Tests: &permission.RuleTests{Match: permission.One("https://a.example.com/x")}}},
		Vetted:          []permission.Vetted{{Tool: permission.One("shell"), Argv: permission.Many("go test **", "git diff **")}},
		StrictApprovals: true,
		Approval: &permission.ApprovalPolicy{Deadline: 48 * time.Hour, Remind: 30 * time.Minute,
			Escalate:  &permission.Escalation{After: 4 * time.Hour, Groups: []string{"leads"}},
			Approvers: &permission.Approvers{Groups: []string{"ops"}}},
	}, f.Engine)
	assert.Equal(t, map[string][]string{"ops": {"alice", "bob"}, "leads": {"carol"}}, f.Groups)
	assert.Len(t, f.Keys["alice"], 32)

	fixer, err := f.Profile("fixer")
	require.NoError(t, err)
	assert.Equal(t, config.Profile{
		Name: "fixer", Description: "Fixes failing tests.", System: "You fix tests.\nMakefile lines keep their\ttabs.\n",
		Models: []string{"scripted:fix", "openai:gpt-5.2"}, Tools: []string{"files", "shell"},
		Permissions: permission.Layer{Deny: []permission.Rule{{Tool: permission.One("fetch")}}, Ask: []permission.Rule{}, Vetted: []permission.Vetted{},
			Preset: permission.Standard, InheritPermissions: true, Approval: &permission.ApprovalPolicy{Deadline: 2 * time.Hour}},
		Guards: []string{"business-hours"},
		Attestation: &tool.Attestation{ToolsetHash: hash, AuthorityHash: hash,
			Tools: map[string]tool.Attested{"shell": {Contract: hash, Authority: hash}}},
		Isolation: worktree.Isolation{Kind: worktree.Tree, Repo: "main", Ref: "v1.2"},
		Limits:    config.Limits{MaxTurns: 20, MaxToolCalls: 64, MaxOutputTokens: 4096, WallClock: 2 * time.Hour, MaxIdleTurns: 2},
		BudgetUSD: &budget,
	}, fixer)
	assert.Equal(t, config.Profile{
		Name: "reader", Models: []string{"openai:gpt-5.2"}, Tools: []string{}, Isolation: worktree.Isolation{Kind: worktree.Readonly},
		Limits: config.Limits{MaxTurns: 32, MaxToolCalls: 128, MaxOutputTokens: 8192, MaxIdleTurns: 3}, BudgetUSD: &two,
	}, f.Profiles["reader"])

	assert.Equal(t, map[string]string{"fix": filepath.Join(dir, "scripts/fix.yaml")}, f.Models.Scripted)
	assert.Equal(t, map[string]config.Provider{
		"anthropic": {Key: "models.anthropic", API: config.APIMessages, Cache: "1h", Thinking: "adaptive", Effort: "high",
			Endpoint: endpoint.Config{Key: endpoint.Key{File: filepath.Join(dir, "keys/anthropic")}, Timeout: 10 * time.Minute, Silence: 2 * time.Minute}},
		"openai": {Key: "models.openai", API: config.APIResponses, Endpoint: endpoint.Config{Key: endpoint.Key{Env: "OPENAI_API_KEY"}}},
		"ollama": {Key: "models.others.ollama", API: config.APIChat, Models: []string{"qwen3"},
			Endpoint: endpoint.Config{BaseURL: "http://127.0.0.1:11434/v1"}},
		"gateway": {Key: "models.others.gateway", API: config.APIMessages, Endpoint: endpoint.Config{BaseURL: "https://llm.example.com",
			Key: endpoint.Key{Env: "GATEWAY_KEY"}, Auth: endpoint.Bearer, Headers: map[string]string{"X-Team": "blue"}}},
	}, f.Models.Providers)
	assert.Equal(t, []string{"anthropic", "gateway", "ollama", "openai", "scripted"}, f.ProviderNames())
	prefix := "gh"
	assert.Equal(t, map[string]config.MCPServer{
		"fs": {Key: "mcp.fs", Command: []string{"mcp-server-filesystem", "{dir}"}, PerDir: true,
			Env: map[string]string{"NODE_ENV": "production"}, PassEnv: []string{"HTTPS_PROXY"}, Deny: []string{"move_file"},
			Risk: map[string]tool.Risk{"read_text_file": tool.Read, "write_file": tool.Write}, Idempotent: []string{"write_file"},
			StartTimeout: 20 * time.Second, CallTimeout: time.Minute, MaxResult: 1 << 20, Required: true},
		"github": {Key: "mcp.github", URL: "https://mcp.example.com/mcp", Headers: map[string]string{"X-Team": "blue"},
			Token: endpoint.Key{Env: "GITHUB_TOKEN"}, Prefix: &prefix, Allow: []string{"search"}, ApproveAll: true},
		"local": {Key: "mcp.local", Command: []string{filepath.Join(dir, "bin/server")}, Dir: "/srv/data", Approval: []string{"send"}, Required: true},
	}, f.MCP)
	assert.Equal(t, config.Worker{
		TaskQueue: "assent", Address: "127.0.0.1:7233", Namespace: "default", Dir: dir, Blobs: "/var/lib/assent/blobs",
		GrantKeyFile: filepath.Join(dir, "keys/grant"),
		Deployment:   config.Deployment{Name: "agents", BuildID: "v1.2.3", Behavior: config.AutoUpgrade},
		Worktrees: config.Worktrees{Repos: map[string]string{"main": filepath.Join(filepath.Dir(dir), "repo"), "other": "/srv/other.git"},
			Root: "/var/lib/assent/trees", KeepOnError: true, PinCap: 2, MinFree: 2 << 30, MaxBytes: 100 << 30, PrivateRepos: []string{"other"},
			Git: "/usr/bin/git", Filters: []string{"lfs"}},
		Fetch: config.Fetch{Allow: []string{"10.0.0.0/8", "::1", "internal.example.com"}},
		Shell: config.Shell{Engine: config.ShellSh, Env: map[string]string{"GOFLAGS": "-mod=mod"}},
	}, f.Worker)
}

func TestADeploymentPinsItsAgents(t *testing.T) {
	f, err := config.Parse("assent.yaml", []byte("worker: {deployment: {name: agents, buildId: 'a.b:c'}}"))
	require.NoError(t, err)
	assert.Equal(t, config.Deployment{Name: "agents", BuildID: "a.b:c", Behavior: config.Pinned}, f.Worker.Deployment)
}

func TestDefaults(t *testing.T) {
	f, err := config.Parse("dir/policy.yaml", []byte("\ufeff# A policy file: engine and profiles alone.\r\nprofiles:\r\n  p: {}\r\n"))
	require.NoError(t, err)
	assert.Equal(t, config.DefaultPinCap, f.Worker.Worktrees.PinCap)
	assert.Equal(t, config.ShellInterp, f.Worker.Shell.Engine)
	assert.Zero(t, f.Worker.Deployment)
	p, err := f.Profile("p")
	require.NoError(t, err)
	assert.Nil(t, p.Tools, "not written differs from empty")
	assert.Nil(t, p.BudgetUSD)
	assert.Equal(t, 32, p.Limits.MaxTurns)

	_, err = f.Profile("q")
	assert.EqualError(t, err, `dir/policy.yaml: unknown profile "q"; one of p`)
	f, err = config.Parse("x.yaml", []byte("engine: {}"))
	require.NoError(t, err)
	_, err = f.Profile("q")
	assert.EqualError(t, err, `x.yaml: unknown profile "q"`)
	f, err = config.Parse("x.yaml", []byte("worker: {worktrees: {pinCap: 0, minFree: 512}}"))
	require.NoError(t, err)
	assert.Zero(t, f.Worker.Worktrees.PinCap, "zero retains nothing")
	assert.EqualValues(t, 512, f.Worker.Worktrees.MinFree)
	f, err = config.Parse("x.yaml", []byte("worker: {worktrees: {private: true}}\nprofiles: {p: {isolation: {kind: worktree, repo: a, private: true}}}"))
	require.NoError(t, err)
	assert.True(t, f.Worker.Worktrees.Private)
	assert.Equal(t, worktree.Isolation{Kind: worktree.Tree, Repo: "a", Private: true}, f.Profiles["p"].Isolation)
	f, err = config.Parse("x.yaml", []byte("engine: {approval: {approvers: {min: 2}}}"))
	require.NoError(t, err)
	assert.Equal(t, &permission.Approvers{Min: 2}, f.Engine.Approval.Approvers, "any two people")
}

func TestLoadErrors(t *testing.T) {
	_, err := config.Load("testdata/none.yaml")
	assert.EqualError(t, err, "testdata/none.yaml: cannot be read: no such file or directory")
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.True(t, fault.IsConfig(err))
	_, err = config.Load("testdata")
	assert.EqualError(t, err, "testdata: cannot be read: is a directory")

	big := filepath.Join(t.TempDir(), "big.yaml")
	require.NoError(t, os.WriteFile(big, []byte("# "+strings.Repeat("x", config.MaxSize)), 0o600))
	_, err = config.Load(big)
	assert.EqualError(t, err, big+": is larger than 1 MiB")
}

func TestExcerpt(t *testing.T) {
	_, err := config.Parse("policy.yaml", []byte("engine:\n  deny:\n   - tool: x\n   - risk: destrutive\n"))
	require.EqualError(t, err, `policy.yaml:4:12: unknown risk "destrutive"; one of read, write, network, execute, destructive, undeclared`)
	var c *fault.ConfigError
	require.ErrorAs(t, err, &c)
	assert.Equal(t, ""+
		"     3 |    - tool: x\n"+
		">    4 |    - risk: destrutive\n"+
		"       |            ^\n", c.Excerpt)

	_, err = config.Parse("p.yaml", []byte("engine: ["+strings.Repeat(" ", 200)+"a]"))
	require.ErrorAs(t, err, &c)
	assert.Less(t, len(c.Excerpt), 400)
	_, err = config.Parse("p.yaml", []byte(strings.Repeat(" ", 200)+"engin: 1"))
	require.ErrorAs(t, err, &c)
	assert.NotContains(t, c.Excerpt, "^", "a mark beyond the cut would point at nothing")
}
