package toolbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
)

var update = flag.Bool("update", false, "write the golden files")

// invoke runs a tool in dir as the engine would: arguments as JSON, through validation.
func invoke(t *testing.T, d *tool.Def, dir string, args any) tool.Result {
	t.Helper()
	return invokeContext(t, t.Context(), d, dir, args)
}

func invokeContext(t *testing.T, ctx context.Context, d *tool.Def, dir string, args any) tool.Result {
	t.Helper()
	input, err := json.Marshal(args)
	require.NoError(t, err)
	return d.Invoke(ctx, &tool.Context{Dir: dir}, input)
}

// ok runs a tool that must succeed and decodes its result.
func ok[T any](t *testing.T, d *tool.Def, dir string, args any) T {
	t.Helper()
	r := invoke(t, d, dir, args)
	require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
	var v T
	require.NoError(t, json.Unmarshal(r.Value, &v))
	return v
}

// fails runs a tool that must fail with a message the model can act on, and says whether it was asked to try again.
func fails(t *testing.T, d *tool.Def, dir string, args any, want string) bool {
	t.Helper()
	r := invoke(t, d, dir, args)
	require.Equal(t, tool.ToolError, r.Code, "%s %+v", r.Value, r.Failure)
	require.Contains(t, r.Failure.Message, want)
	return r.Failure.Retry
}

// denies runs a tool that policy must refuse while it runs.
func denies(t *testing.T, d *tool.Def, dir string, args any, want string) {
	t.Helper()
	r := invoke(t, d, dir, args)
	require.Equal(t, tool.Denied, r.Code, "%s %+v", r.Value, r.Failure)
	require.Contains(t, r.Failure.Message, want)
}

var defaults = sync.OnceValues(func() (map[string]*tool.Def, error) {
	defs, err := toolbox.All(toolbox.Config{})
	byName := map[string]*tool.Def{}
	for _, d := range defs {
		byName[d.Name()] = d
	}
	return byName, err
})

// all returns the tools in their default configuration.
func all(t *testing.T) map[string]*tool.Def {
	t.Helper()
	byName, err := defaults()
	require.NoError(t, err)
	return byName
}

type args map[string]any

func TestNamesAndArgumentsAreFrozen(t *testing.T) {
	defs := all(t)
	for name, d := range defs {
		var text bytes.Buffer
		require.NoError(t, json.Indent(&text, d.Info().Parameters, "", "  "))
		text.WriteByte('\n')
		path := filepath.Join("testdata", "schemas", name+".json")
		if *update {
			require.NoError(t, os.WriteFile(path, text.Bytes(), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), text.String(), "the arguments of %s changed; models and recorded runs depend on them", name)
	}
	files, err := filepath.Glob("testdata/schemas/*.json")
	require.NoError(t, err)
	require.Len(t, files, len(defs), "a tool is gone")
}

func TestRisks(t *testing.T) {
	want := map[string]tool.Risk{
		"list_files": tool.Read, "read_file": tool.Read, "search_files": tool.Read,
		"write_file": tool.Write, "edit_file": tool.Write, "delete_file": tool.Destructive,
		"shell": tool.Execute, "exec": tool.Execute, "fetch": tool.Network, "escalate": tool.Read, "report_progress": tool.Read,
	}
	defs := all(t)
	require.Len(t, defs, len(want))
	for name, risk := range want {
		require.Equal(t, risk, defs[name].Info().Risk, name)
	}
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	deny := func(context.Context, []string) error { return nil }
	for name, cfg := range map[string]toolbox.Config{
		"unknown engine":         {Shell: toolbox.ShellConfig{Engine: "zsh"}},
		"sh cannot enforce":      {Shell: toolbox.ShellConfig{Engine: toolbox.EngineSh, Deny: deny}},
		"variable without name":  {Shell: toolbox.ShellConfig{Env: map[string]string{"": "x"}}},
		"variable with =":        {Exec: toolbox.ExecConfig{Env: map[string]string{"A=B": "x"}}},
		"value with NUL":         {Exec: toolbox.ExecConfig{Env: map[string]string{"A": "x\x00"}}},
		"TMPDIR is the call's":   {Exec: toolbox.ExecConfig{Env: map[string]string{"TMPDIR": "/tmp"}}},
		"the mark is the call's": {Exec: toolbox.ExecConfig{Env: map[string]string{"ASSENT_CALL": "x"}}},
	} {
		_, err := toolbox.All(cfg)
		require.True(t, fault.IsConfig(err), "%s: %v", name, err)
	}
}

func TestReportsEchoWhatWasSaid(t *testing.T) {
	defs := all(t)
	said := args{"kind": "blocked", "summary": "no network", "blockers": []string{"proxy"}, "revisedEstimate": args{"usd": 1.5, "turns": 9}}
	got := ok[toolbox.Escalated](t, defs["escalate"], "", said)
	require.Equal(t, toolbox.Escalated{Escalated: true, Escalation: toolbox.Escalation{
		Kind: "blocked", Summary: "no network", Blockers: []string{"proxy"}, RevisedEstimate: &toolbox.Estimate{USD: 1.5, Turns: 9},
	}}, got)
	require.Equal(t, tool.InvalidArguments, invoke(t, defs["escalate"], "", args{"kind": "tired", "summary": "x"}).Code)

	progress := ok[toolbox.Reported](t, defs["report_progress"], "", args{"facts": []string{"a"}, "note": "n"})
	require.Equal(t, toolbox.Reported{Reported: true, Progress: toolbox.Progress{Facts: []string{"a"}, Note: "n"}}, progress)
}

func TestToolsNeedAWorkingDirectory(t *testing.T) {
	defs := all(t)
	for name, in := range map[string]args{
		"list_files": {}, "read_file": {"path": "a"}, "search_files": {"query": "a"},
		"write_file": {"path": "a", "content": ""}, "edit_file": {"path": "a", "old": "a", "new": "b"}, "delete_file": {"path": "a"},
		"shell": {"command": "true"}, "exec": {"argv": []string{"true"}},
	} {
		fails(t, defs[name], "", in, "no working directory")
	}
}
