package demo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/protocol"
)

// change is the line that the sample's agent writes.
const change = "+\twords := strings.Fields(strings.ToLower(title))"

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %s: %s", args, out)
	return string(out)
}

// goTest runs the tests of a module as the agent does.
func goTest(dir string) ([]byte, error) {
	cmd := exec.Command("go", "test", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOENV=off", "GOFLAGS=", "GOPROXY=off", "GOWORK=off")
	return cmd.CombinedOutput()
}

// applies checks that the patch mends a fresh clone of the sample.
func (s *stage) applies() {
	s.t.Helper()
	clone := filepath.Join(s.t.TempDir(), "clone")
	git(s.t, "", "clone", "-q", s.path(s.id(), "slug"), clone)
	out, err := goTest(clone)
	require.Error(s.t, err)
	require.Contains(s.t, string(out), "FAIL: TestMake")
	git(s.t, clone, "apply", s.path(s.id(), "fix.patch"))
	out, err = goTest(clone)
	require.NoError(s.t, err, string(out))
	require.Equal(s.t, " M slug.go\n", git(s.t, clone, "status", "--porcelain"))
}

func TestYes(t *testing.T) {
	s := newStage(t)
	got := s.run(0, "", "demo", "--yes")
	for _, want := range []string{
		"allow  list_files", "allow  edit_file", "shell   go test ./...\n", "why     ask-rule", "(preset standard)",
		"web     http://127.0.0.1:", "cli     " + starter + " approve shell-", "or      temporal workflow signal --address 127.0.0.1:",
		"FAIL: TestMake", "exit code 1", "exit code 0", change, "ok   6 turns · 6 calls · 2 approvals · $0.00",
		"git -C " + s.path(s.id(), "slug") + " apply --whitespace=nowarn " + s.path(s.id(), "fix.patch"),
	} {
		require.Contains(t, got.out.String(), want)
	}
	require.Contains(t, got.err.String(), "remove both with: rm -r "+s.path(s.id()))
	require.ElementsMatch(t, []string{"slug", "fix.patch"}, s.files(), "everything else was removed")
	require.Empty(t, git(t, s.path(s.id(), "slug"), "status", "--porcelain", "--ignored"))
	require.Len(t, strings.Fields(git(t, s.path(s.id(), "slug"), "worktree", "list")), 3, "the worktree is gone")
	s.applies()
}

func TestCrash(t *testing.T) {
	s := newStage(t)
	got := s.run(0, "", "demo", "--yes", "--crash", "--keep")
	require.Contains(t, got.out.String(), "was killed (SIGKILL)")
	require.Contains(t, got.out.String(), "ok   6 turns · 6 calls · 2 approvals")
	s.applies()

	// What is kept can be looked at again.
	require.FileExists(t, s.path(s.id(), "temporal.db"))
	again := s.run(0, "", "watch", s.id())
	require.Contains(t, again.out.String(), "ok   6 turns · 6 calls · 2 approvals")
	require.NotContains(t, again.out.String(), "approval needed")
	require.FileExists(t, s.path(s.id(), "temporal.db"))
}

// Somebody quits, comes back, and others answer: by the SDK, which sends what the temporal command sends, and by the
// line that the demo prints.
func TestQuitAndComeBack(t *testing.T) {
	s := newStage(t)
	left := s.run(3, "w\nwhat\nq\n", "demo")
	require.Contains(t, left.out.String(), "Nothing has run.")
	require.Contains(t, left.out.String(), `"what" is none of these`)
	require.Contains(t, left.err.String(), starter+" watch "+s.id())
	require.NotContains(t, left.out.String(), "exit code")
	s.nothingRuns()

	back := s.start("watch", s.id())
	key := back.asks(1)
	require.Contains(t, left.out.String(), key, "it is the same question")
	d := s.state()
	c, err := client.Dial(client.Options{HostPort: d.OwnAddress()})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SignalWorkflow(context.Background(), d.ID, "", protocol.SignalApproval, map[string]string{"key": key, "decision": "allow"}))

	second := back.asks(2)
	_, line, _ := strings.Cut(back.out.String()[strings.LastIndex(back.out.String(), "cli "):], "cli ")
	line, _, _ = strings.Cut(line, "\n")
	require.Contains(t, line, second)
	words := strings.Fields(line)
	require.Equal(t, starter, words[0])
	s.run(0, "", words[1:]...)
	back.exits(0)
	require.Contains(t, back.out.String(), "ok   6 turns · 6 calls · 2 approvals")
	s.applies()
}

func TestEndOfInputLeavesTheAgentWaiting(t *testing.T) {
	s := newStage(t)
	s.run(3, "", "demo")
	shown := s.run(3, "", "watch", s.id(), "--no-wait")
	require.Contains(t, shown.out.String(), "approval needed")
}

func TestDeny(t *testing.T) {
	s := newStage(t)
	got := s.run(0, "d not on this machine\nd\n", "demo")
	require.Contains(t, got.out.String(), "by tester (self-asserted): not on this machine")
	require.NotContains(t, got.out.String(), "exit code")
	require.Contains(t, got.out.String(), "2 approvals")
}

// Ctrl-C and a kill leave no process, and the agent goes on when it is watched again.
func TestInterrupted(t *testing.T) {
	for name, end := range map[string]struct {
		signal os.Signal
		code   int
	}{"SIGINT": {os.Interrupt, 130}, "SIGKILL": {syscall.SIGKILL, -1}} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			sh := s.start("demo")
			sh.asks(1)
			require.GreaterOrEqual(t, len(s.processes()), 2)
			require.NoError(t, sh.cmd.Process.Signal(end.signal))
			sh.exits(end.code)
			s.nothingRuns()
			got := s.run(0, "a\na because\n", "watch", s.id())
			require.Contains(t, got.out.String(), "ok   6 turns · 6 calls · 2 approvals")
			s.applies()
		})
	}
}

// Ctrl-C while a command of the agent runs.
func TestInterruptedWhileACommandRuns(t *testing.T) {
	s := newStage(t)
	script := s.script("turns: [{calls: [{tool: shell, args: {command: \"sleep 1000 & touch $PWD/began; sleep 1000\"}}]}, {say: bye}]")
	sh := s.start("demo", "--yes", "--script", script)
	sh.until(func() bool {
		began, err := filepath.Glob(s.path("demo-*", "work", "trees", "*", "began"))
		return err == nil && len(began) == 1
	}, "to run the command")
	require.NoError(t, sh.cmd.Process.Signal(os.Interrupt))
	sh.exits(130)
	s.nothingRuns()
	got := s.run(0, "", "watch", s.id())
	require.Contains(t, got.out.String(), "lost  shell", "it is not run a second time")
	require.Contains(t, got.out.String(), "bye")
}

func TestTwoWatchers(t *testing.T) {
	s := newStage(t)
	first := s.start("demo")
	key := first.asks(1)
	second := s.start("watch", s.id())
	second.until(func() bool { return strings.Contains(second.out.String(), "approval needed   "+key) }, "to be watched")
	_, err := fmt.Fprintln(first.in, "a")
	require.NoError(t, err)
	first.asks(2)
	_, err = fmt.Fprintln(first.in, "a")
	require.NoError(t, err)
	second.until(func() bool { return strings.Contains(second.out.String(), "turn 6") }, "to be watched")
	first.exits(0)
	_ = second.cmd.Process.Kill() // its server is gone
}

func TestJSON(t *testing.T) {
	s := newStage(t)
	got := s.run(0, "", "demo", "--yes", "-o", "json")
	var kinds []follow.Kind
	for lines := bufio.NewScanner(strings.NewReader(got.out.String())); lines.Scan(); {
		var e follow.Event
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e), lines.Text())
		kinds = append(kinds, e.Kind)
	}
	require.Equal(t, follow.AgentStart, kinds[0])
	require.Equal(t, follow.AgentEnd, kinds[len(kinds)-1])
	require.Contains(t, kinds, follow.ApprovalPending)
	require.Contains(t, got.err.String(), "approval needed")
	require.Contains(t, got.err.String(), "apply --whitespace=nowarn "+s.path(s.id(), "fix.patch"))
}

// A server of others is used only when it is named, with a queue that is nobody else's.
func TestAddress(t *testing.T) {
	server, s := devservertest.Server(t), newStage(t)
	s.env = nil
	got := s.run(3, "a\n", "demo", "--address", server.Address())
	id := s.id()
	require.Contains(t, got.out.String(), id+"   demo on queue "+id)
	require.NotContains(t, got.out.String(), "web  ")
	s.nothingRuns()
	select {
	case <-server.Exited():
		t.Fatal("the server of others has ended")
	default:
	}
	got = s.run(0, "a\n", "watch", id)
	require.Contains(t, got.out.String(), "ok   6 turns · 6 calls · 2 approvals")
	s.applies()
}

// With --address the environment counts: it may hold what the server wants.
func TestAddressWithSettings(t *testing.T) {
	server, s := devservertest.Server(t), newStage(t)
	s.env = []string{"TEMPORAL_TLS=true"}
	got := s.run(1, "", "demo", "--yes", "--address", server.Address())
	require.Contains(t, got.err.String(), "error: no Temporal server at "+server.Address())
	require.Empty(t, s.ids())
}

// A person can change what runs, and say that a command needs no question any more.
func TestEditAndAlways(t *testing.T) {
	s := newStage(t)
	got := s.run(0, "e\ne [1]\ne {\"command\":\"go test ./...\"}\ne {\"command\":\"go vet ./...\"}\nA\n", "demo")
	text := got.out.String() + got.err.String()
	require.Contains(t, text, `for example: e {"command":"go vet ./..."}`)
	require.Contains(t, text, "not sent: they are no JSON object")
	require.Contains(t, text, "the arguments are left as they were")
	require.Contains(t, text, `- command: "go test ./..."`)
	require.Contains(t, text, `+ command: "go vet ./..."`)
	require.Contains(t, text, "edited  shell  go vet ./...")
	require.Contains(t, text, `- {tool: [shell], argv: ["go test ./..."]}`)
	require.Contains(t, text, "2 approvals")
}
