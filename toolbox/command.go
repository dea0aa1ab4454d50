package toolbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

const (
	defaultTimeout = 120 * time.Second
	maxTimeout     = 3600 * time.Second
	// killGrace is how long a process may take to obey SIGTERM.
	killGrace = 2 * time.Second
	// timedOutCode is the exit code of a command that ran out of time, as timeout(1) has it.
	timedOutCode = 124
)

// markName is the environment variable that marks every process of one call. Descendants inherit it, so that also
// those which left their process group and session are found when the call ends.
const markName = "ASSENT_CALL"

// Output is the result of shell and exec. A program that fails is a result like any other.
type Output struct {
	// ExitCode is that of the command; 128 plus the signal if one ended it, 124 if its time was over.
	ExitCode int `json:"exitCode"`
	// Stdout and Stderr are UTF-8 of at most 256 KiB each; longer output lost its middle, where a line says how much.
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// TimedOut is true when the command was ended because its time was over.
	TimedOut bool `json:"timedOut,omitempty"`
	// StdoutDropped and StderrDropped count the bytes that were left out.
	StdoutDropped int64 `json:"stdoutDropped,omitempty"`
	StderrDropped int64 `json:"stderrDropped,omitempty"`
	// InvalidUTF8 is true when bytes that are not UTF-8 were replaced by U+FFFD.
	InvalidUTF8 bool `json:"invalidUtf8,omitempty"`
}

// DeniedError reports a command that a deny rule, or the Deny hook, refused at run time. The call ended with it.
type DeniedError struct {
	// Argv is the command as it would have been executed.
	Argv []string
	// Cause is the rule, or what the hook said.
	Cause error
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("run %q: denied: %v", shown(e.Argv), e.Cause)
}

// shown returns the beginning of a command, so that what was wrong with it stays in sight.
func shown(argv []string) string {
	const most = 400
	var b strings.Builder
	for i, arg := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		if room := most - b.Len(); len(arg) > room {
			b.WriteString(strings.ToValidUTF8(arg[:max(0, room)], "\uFFFD") + "…")
			break
		}
		b.WriteString(arg)
	}
	return b.String()
}

// RefusedBy makes the call's result DENIED. It names the rule, if one refused.
func (e *DeniedError) RefusedBy() string {
	by := "deny-rule"
	if refused := (tool.Refused)(nil); errors.As(e.Cause, &refused) {
		by = refused.RefusedBy()
	}
	return by + ", at run time"
}

// Unwrap returns the rule, or the error of the hook.
func (e *DeniedError) Unwrap() error { return e.Cause }

// errTimedOut is the cause of a context whose command ran out of its own time.
var errTimedOut = errors.New("the time of the command is over")

// errFinished is the cause of a context whose command came to its own end.
var errFinished = errors.New("the command is finished")

// commandRun is one call of shell or exec while it runs.
type commandRun struct {
	dir  string
	env  []string
	deny func(ctx context.Context, argv []string) error
	// rules is the policy of the call, or nil.
	rules tool.Rules
	// temp is the TMPDIR of the call; it goes when the call ends.
	temp   string
	memory uint64
	jobs   *jobs
	out    *capture
	err    *capture
	// cleanup runs once no program can start any more.
	cleanup []func()
	// stop ends the call for a reason that is not an exit code. The first reason stays.
	stop context.CancelCauseFunc
}

// runCommand sets a call up, lets body run it and returns what it printed. body returns the exit code, or an error
// that is the call's.
func runCommand(ctx context.Context, cfg commandConfig, call *tool.Context, seconds int, body func(context.Context, *commandRun) (int, error)) (out Output, err error) {
	if call.Dir == "" {
		return Output{}, errors.New("this agent has no working directory")
	}
	timeout := defaultTimeout
	if seconds > 0 {
		timeout = min(time.Duration(seconds)*time.Second, maxTimeout)
	}
	limited, cancel := context.WithTimeoutCause(ctx, timeout, errTimedOut)
	defer cancel()
	running, stop := context.WithCancelCause(limited)
	defer stop(nil)

	run := &commandRun{dir: call.Dir, deny: cfg.deny, rules: call.Rules, memory: cfg.memory, jobs: newJobs(cfg.grace), stop: stop}
	if run.temp, err = os.MkdirTemp("", "assent-call-*"); err != nil {
		return Output{}, fmt.Errorf("make a temporary directory: %w", err)
	}
	defer os.RemoveAll(run.temp)
	run.env = append(slices.Clone(cfg.env), "TMPDIR="+run.temp, "PWD="+call.Dir)
	if run.out, err = newCapture(cfg.room); err != nil {
		return Output{}, fmt.Errorf("capture output: %w", err)
	}
	if run.err, err = newCapture(cfg.room); err != nil {
		run.out.finish()
		return Output{}, fmt.Errorf("capture output: %w", err)
	}

	code, err := body(running, run)
	cause := context.Cause(running)
	stop(errFinished)
	closeErr := run.jobs.close()
	for _, f := range run.cleanup {
		f()
	}
	stdout, stderr := run.out.finish(), run.err.finish()
	out = Output{
		ExitCode: code, Stdout: stdout.text, StdoutDropped: stdout.dropped,
		Stderr: stderr.text, StderrDropped: stderr.dropped, InvalidUTF8: stdout.replaced || stderr.replaced,
	}
	switch {
	case ctx.Err() != nil:
		return Output{}, context.Cause(ctx)
	case errors.Is(cause, errTimedOut):
		out.TimedOut, out.ExitCode = true, timedOutCode
	case cause != nil && !errors.Is(cause, errFinished):
		return Output{}, cause
	case err != nil:
		return Output{}, err
	}
	return out, closeErr
}

// check asks the deny rules and the hook about argv; a refusal ends the whole call, wherever in it the command stands.
func (r *commandRun) check(ctx context.Context, argv []string) error {
	err := error(nil)
	if r.rules != nil {
		err = r.rules.Argv(slices.Clone(argv))
	}
	if err == nil && r.deny != nil {
		err = r.deny(ctx, slices.Clone(argv))
	}
	if err == nil {
		return nil
	}
	denied := &DeniedError{Argv: slices.Clone(argv), Cause: err}
	r.stop(denied)
	return denied
}

// commandConfig is a configuration after its check.
type commandConfig struct {
	deny  func(ctx context.Context, argv []string) error
	env   []string
	grace time.Duration
	room  int
	// memory is by how much the worker may grow while it interprets.
	memory uint64
}

// newCommandConfig builds the environment: nothing of the worker's own but its PATH and HOME gets through, because
// that is where credentials are.
func newCommandConfig(key string, extra map[string]string, deny func(context.Context, []string) error) (commandConfig, error) {
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "LANG": "C.UTF-8"}
	if env["PATH"] == "" {
		env["PATH"] = "/usr/local/bin:/usr/bin:/bin"
	}
	for name, value := range extra {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return commandConfig{}, fault.Configf(key+".env", "%q is not a usable environment variable", name)
		}
		if name == "TMPDIR" || name == "PWD" || name == markName {
			return commandConfig{}, fault.Configf(key+".env", "%s is set for every call and cannot be configured", name)
		}
		env[name] = value
	}
	cfg := commandConfig{deny: deny, grace: killGrace, room: maxStream, memory: maxMemory}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		cfg.env = append(cfg.env, name+"="+env[name])
	}
	return cfg, nil
}
