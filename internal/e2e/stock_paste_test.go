package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worker"
)

// toPaste are the commands that a workflow's details print, as a person copies them from the page: whole code blocks, and
// code spans.
func toPaste(details string) []string {
	var out []string
	fence, begin := "", 0
	lines := strings.Split(details, "\n")
	for i, line := range lines {
		ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3:
			fence, begin = ticks, i+1
		case fence != "" && line == fence:
			out, fence = append(out, strings.Join(lines[begin:i], "\n")), ""
		case fence == "":
			if spans := strings.Split(line, "`"); len(spans) > 1 {
				out = append(out, spans[1])
			}
		}
	}
	return out
}

// command returns the one to paste that begins so and has the word.
func (o *operator) command(id, program, word string) string {
	o.t.Helper()
	details := o.details(id)
	for _, c := range toPaste(details) {
		if strings.HasPrefix(c, program+" ") && strings.Contains(c, word) {
			return c
		}
	}
	require.Fail(o.t, "there is no such command", "%s … %s in\n%s", program, word, details)
	return ""
}

// The details of an agent print commands that work as they are, in any POSIX shell.
func TestStockPastedCommands(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ program, word, code string }{
		"allow":         {"temporal", `"allow"`, "OK"},
		"deny":          {"temporal", `"deny"`, "DENIED/person"},
		"starter allow": {"starter", "approve", "OK"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOperator(t)
			w := newWorld(t)
			// The key is not open anywhere else, so that it alone is enough.
			w.work(askingWith(strings.ReplaceAll(oneAsk, "text: a", "text: "+uuid.NewString())))
			w.start(protocol.AgentInput{})
			w.pending(1)
			o.finds(waiting, true, w.id)
			if tc.program == "starter" {
				build := exec.Command("go", "build", "-o", filepath.Join(o.bin, "starter"), "../../cmd/starter")
				out, err := build.CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			line := o.command(w.id, tc.program, tc.word)
			s := o.exec("sh", "-c", line)
			require.Zero(t, s.code, "%s\n%v", line, s)
			require.Equal(t, []string{tc.code}, w.codes(w.result()))
		})
	}
}

// release is a team's own workflow: one activity, by name.
func release(ctx workflow.Context, name string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var out string
	err := workflow.ExecuteActivity(ctx, name, map[string]string{"what": "api"}).Get(ctx, &out)
	return out, err
}

// guarded starts a workflow that is not an agent and waits until its activity asks.
func guarded(t *testing.T, id, activityType string) (*world, client.WorkflowRun, approval.Approval) {
	t.Helper()
	w := newWorld(t)
	w.id = id
	g, err := worker.NewGuard(worker.GuardConfig{
		Tools:       map[string]tool.Options{activityType: {Risk: tool.Execute}},
		Permissions: permission.Layer{Preset: permission.Standard}, DecideTimeout: 20 * time.Second, Log: logger(),
	})
	require.NoError(t, err)
	wk := sdkworker.New(w.c, w.queue, options(g))
	wk.RegisterWorkflowWithOptions(release, workflow.RegisterOptions{Name: "Release"})
	wk.RegisterActivityWithOptions(func(_ context.Context, in map[string]string) (string, error) {
		return in["what"], appendLine(w.effects, in["what"])
	}, activity.RegisterOptions{Name: activityType})
	require.NoError(t, wk.Start())
	t.Cleanup(wk.Stop)
	run, err := w.c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue}, "Release", activityType)
	require.NoError(t, err)
	return w, run, w.asked(w.id, 1)[0]
}

// ended is the error type with which a guarded workflow ended, empty if it did not fail.
func ended(t *testing.T, run client.WorkflowRun) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := run.Get(ctx, nil)
	if err == nil {
		return ""
	}
	var app *temporal.ApplicationError
	require.True(t, errors.As(err, &app), "%v", err)
	return app.Type()
}

func TestStockToolsAnswerAGuardedWorkflow(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	id := "release-" + uuid.NewString()
	_, run, q := guarded(t, id, "Deploy")
	o.finds(waiting, true, id)
	require.Contains(t, o.ok("workflow", "query", "-w", id, "--type", "assent_approvals"), `"key":"`+q.Key+`"`)
	require.Contains(t, o.refused("workflow", "query", "-w", id, "--type", "approvals"), "unknown queryType approvals")
	resolve := []string{"workflow", "update", "execute", "-w", id, "--name", "assent_resolve", "--input"}
	require.Contains(t, o.refused(append(resolve, `{"key":"Deploy-00000000","decision":"allow"}`)...), "no such question is pending")
	o.ok("workflow", "signal", "-w", id, "--name", "assent_approval", "--input", `{"key":"Deploy-00000000","decision":"allow"}`)
	o.ok(append(resolve, `{"key":"`+q.Key+`","decision":"allow"}`)...)
	require.Empty(t, ended(t, run))
	o.finds(waiting, false, id)

	id = "release-" + uuid.NewString()
	_, run, _ = guarded(t, id, "Deploy")
	o.ok("workflow", "signal", "-w", id, "--name", "assent_approval", "--input", `"deny"`)
	require.Equal(t, protocol.ErrorDenied, ended(t, run))
}

// Workflow ids and activity types are free text. Whatever they hold, a pasted command is one command and answers that
// question of that workflow.
func TestStockPastedCommandsAreSafe(t *testing.T) {
	t.Parallel()
	for name, awkward := range map[string]string{
		"plain":        "Deploy",
		"quote":        "it's; touch pwned #",
		"quotes":       "''; touch pwned; ''",
		"double":       `say "x"; touch pwned; "`,
		"space":        "two words",
		"substitution": "$(touch pwned)",
		"backquotes":   "`touch pwned`",
		"backslash":    `a\'; touch pwned; \'`,
		"variable":     "$HOME",
		"glob":         "*",
		"option":       "--help",
		"history":      "!!",
		"comment":      "# nothing",
		"pipe":         "a|touch pwned",
		"redirection":  "a>pwned",
		"fence":        "```\ntouch pwned\n```",
		"newline":      "a\ntouch pwned",
		"escape":       "a\x1b[201~\ntouch pwned\n",
		"return":       "a\rtouch pwned",
		"letters":      "Größe-好",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOperator(t)
			recorder := "#!/bin/sh\nprintf '%s\\0' \"$@\" >starter.args\n"
			require.NoError(t, os.WriteFile(filepath.Join(o.bin, "starter"), []byte(recorder), 0o755))
			for i, tc := range []struct{ shell, word, end string }{{"sh", `"allow"`, ""}, {"bash", `"deny"`, protocol.ErrorDenied}} {
				if len(name)%2 != i && !long() {
					continue // each text in one of the two
				}
				id := uuid.NewString()
				// The SDK refuses other ids, because it puts them into a header.
				if strings.IndexFunc(awkward, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
					id = awkward + " " + id
				}
				w, run, q := guarded(t, id, awkward)
				paste := func(program, word string) {
					line := o.command(id, program, word)
					s := o.exec(tc.shell, "-c", line)
					if tc.shell == "sh" && strings.Contains(line, "$'") {
						// Not every sh knows these quotes: it does nothing, and bash and zsh do what was meant.
						require.NoFileExists(t, filepath.Join(o.dir, "pwned"))
						s = o.exec("bash", "-c", line)
					}
					require.Zero(t, s.code, "%s\n%v", line, s)
					require.NoFileExists(t, filepath.Join(o.dir, "pwned"), line)
				}
				paste("starter", "approve")
				args, err := os.ReadFile(filepath.Join(o.dir, "starter.args"))
				require.NoError(t, err)
				require.Subset(t, strings.Split(string(args), "\x00"), []string{"approve", q.Key, id})
				paste("temporal", tc.word)
				require.Equal(t, tc.end, ended(t, run))
				require.Equal(t, tc.end == "", len(w.ran()) == 1)
			}
		})
	}
}
