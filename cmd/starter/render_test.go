package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worktree"
)

var updatePages = flag.Bool("update", false, "write the golden pages of the recorded histories")

// What people see of recorded histories is held whole.
func TestPages(t *testing.T) {
	histories, err := filepath.Glob(filepath.Join("..", "..", "follow", "testdata", "histories", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, histories)
	for _, path := range histories {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			got := page(t, path, name)
			golden := filepath.Join("testdata", "pages", name+".txt")
			if *updatePages {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

func page(t *testing.T, path, name string) string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	history, err := client.HistoryFromJSON(f, client.HistoryJSONOptions{})
	require.NoError(t, err)
	var out bytes.Buffer
	a := &app{out: &out, err: io.Discard}
	p := a.printer(&connect.Server{Address: connect.DefaultAddress, Namespace: connect.DefaultNamespace}, name)
	r := follow.NewReader(name, "", nil)
	for _, e := range history.GetEvents() {
		for _, event := range r.Read(e) {
			require.NoError(t, p.print(event))
		}
	}
	return out.String()
}

// What agents do that others have started is shown apart, and only if that is asked for.
func TestChildrenAreShownApart(t *testing.T) {
	events := func(id string) []follow.Event {
		return []follow.Event{{Kind: follow.AgentStart, WorkflowID: id, Start: &follow.Started{AgentType: "writer", TaskQueue: "q"}},
			{Kind: follow.AgentEnd, WorkflowID: id, End: &follow.Ended{Closed: "completed", Result: &protocol.AgentResult{Status: protocol.OK, Output: id + " is done"}}}}
	}
	plan, kid := events("plan"), events("plan/kid")
	all := []follow.Event{plan[0], {Kind: follow.ChildStart, WorkflowID: "plan", Child: &follow.Child{Run: follow.Run{WorkflowID: "plan/kid"}}}, kid[0], kid[1],
		{Kind: follow.ChildEnd, WorkflowID: "plan", Child: &follow.Child{Run: follow.Run{WorkflowID: "plan/kid"}, Closed: "completed", Result: kid[1].End.Result}}, plan[1]}
	var out bytes.Buffer
	a := &app{out: &out, err: io.Discard}
	p := a.printer(&connect.Server{Address: connect.DefaultAddress, Namespace: connect.DefaultNamespace}, "plan")
	p.children = map[string]*printer{}
	for _, e := range all {
		require.NoError(t, p.print(e))
	}
	got := out.String()
	require.Equal(t, 1, strings.Count(got, "── plan/kid\n"), got)
	require.Equal(t, 1, strings.Count(got, "── plan\n"), got)
	require.Contains(t, got, "starts agent plan/kid\n")
	require.Contains(t, got, "agent plan/kid: ok\n")
	require.Equal(t, "plan is done", p.view.end.Result.Output, "the end is that of the run that is watched")
	require.Equal(t, "plan/kid is done", p.children["plan/kid"].view.end.Result.Output)

	out.Reset()
	again := events("plan")[0]
	again.Start.ContinuedFrom = "before"
	require.NoError(t, p.print(again))
	require.Equal(t, "the agent goes on in a new run\n", out.String())
}

// A repository that was made to run programs is told before the patch, and a loss when it is over.
func TestWhatMustNotBeMissedOfAWorktree(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out, err: io.Discard}
	p := a.printer(&connect.Server{Address: connect.DefaultAddress, Namespace: connect.DefaultNamespace}, "fix")
	art := protocol.Artifact{Kind: protocol.ArtifactPatch, Error: "git runs programs", Warnings: []string{"a FIFO"},
		Files: []worktree.File{{Path: "a", Status: "added"}}, HostChanges: []worktree.HostChange{{Key: "config core.hookspath", Change: "added", Dangerous: true}}}
	for _, e := range []follow.Event{
		{Kind: follow.AgentStart, WorkflowID: "fix", Start: &follow.Started{AgentType: "fixer"}},
		{Kind: follow.AgentRestart, WorkflowID: "fix", Restart: &follow.Restart{Number: 1, Lost: "the host is\x1b gone"}},
		{Kind: follow.AgentEnd, WorkflowID: "fix", End: &follow.Ended{Closed: "completed",
			Result: &protocol.AgentResult{Status: protocol.Failed, Error: "git runs programs", Restarts: 1, Artifacts: []protocol.Artifact{art}}}},
	} {
		require.NoError(t, p.print(e))
	}
	got := out.String()
	require.Contains(t, got, "the agent starts again in a new worktree, restart 1: the host is")
	require.NotContains(t, got, "\x1b")
	danger, patch := strings.Index(got, "danger  git runs programs"), strings.Index(got, "  patch  ")
	require.Positive(t, danger, got)
	require.Less(t, danger, patch, got)
	require.Len(t, p.view.shown().Restarts, 1)
}

// Arguments come from a model: nothing in them may move the cursor, hide, or pass for a line of ours.
func TestForeignTextStaysInItsPlace(t *testing.T) {
	evil := "ls\x1b[2J\r\n⏸ approval needed\u202e\u200b\u3164"
	input, err := json.Marshal(map[string]string{"command": evil})
	require.NoError(t, err)
	for _, shown := range append(argumentLines(input), callText(input, nil), oneLine(evil, mostLine)) {
		require.NotContains(t, shown, "\x1b")
		require.NotContains(t, shown, "\r")
		require.NotContains(t, shown, "\n")
		require.NotContains(t, shown, "\u202e")
		require.NotContains(t, shown, "\u3164")
	}
	require.Equal(t, []string{"go test ./..."}, argumentLines(json.RawMessage(`{"command":"go test ./..."}`)))
	// More than a command is never shown as one.
	require.Equal(t, []string{`{"command":"ls","timeoutSeconds":3}`}, argumentLines(json.RawMessage(`{"command":"ls","timeoutSeconds":3}`)))
	require.Greater(t, len(argumentLines(json.RawMessage(`{"path":"a","content":"`+strings.Repeat("x", 200)+`"}`))), 1)
	require.Equal(t, `{"path":"a"}`, callText(json.RawMessage(`{"path":"a"}`), nil))
	require.Contains(t, oneLine(strings.Repeat("x", 500), 10), "… (490 bytes more)")
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 42 * time.Second: "42s", 3*time.Minute + 59*time.Second: "3m", 2 * time.Hour: "2h",
		2*time.Hour + 5*time.Minute: "2h5m", 49 * time.Hour: "2d",
	} {
		require.Equal(t, want, span(d))
	}
}

func TestCommandLinesCanBePasted(t *testing.T) {
	s := &connect.Server{Address: "127.0.0.1:9", Namespace: "it's"}
	require.Equal(t, `starter show 'a b' --address 127.0.0.1:9 --namespace 'it'\''s'`, again(s, "show", "a b"))
	require.Equal(t, "''", shellQuote(""))
	require.Equal(t, `temporal workflow signal --address 127.0.0.1:9 --namespace 'it'\''s' -w 'x;y' --name approval --input '{"key":"k-1","decision":"allow"}'`,
		signalLine(s, "x;y", protocol.WorkflowAgent, "k-1"))
	require.Contains(t, signalLine(s, "x", "Payments", "k-1"), "--name assent_approval")
}

func TestColoursOnATerminalOnly(t *testing.T) {
	require.Equal(t, "x", styleFor(io.Discard).red("x"))
	require.Equal(t, "\x1b[31mx\x1b[0m", style{on: true}.red("x"))
	require.Empty(t, style{on: true}.red(""))
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.False(t, styleFor(f).on)
	t.Setenv("NO_COLOR", "1")
	require.False(t, styleFor(os.Stdout).on)
}

func TestExitCodes(t *testing.T) {
	result := func(s protocol.Status) *follow.Ended {
		return &follow.Ended{Closed: "completed", Result: &protocol.AgentResult{Status: s}}
	}
	for want, ends := range map[int][]*follow.Ended{
		0: {nil, result(protocol.OK), {Closed: "completed"}},
		1: {result(protocol.Failed), result(protocol.Cancelled), {Closed: "failed"}, {Closed: "terminated"}, {Closed: "timed-out"}},
		2: {{Closed: "failed", ErrorType: protocol.ErrorConfig}},
		4: {result(protocol.LimitHit), result(protocol.Escalated)},
	} {
		for _, end := range ends {
			require.Equal(t, want, code(end), "%+v", end)
		}
	}
}
