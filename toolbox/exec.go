package toolbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"

	"github.com/assent-dev/assent/tool"
)

// ExecConfig configures the tool exec. Its zero value is useful.
type ExecConfig struct {
	// Deny is asked, after the deny rules of the call, about the argument array before the program starts; an error
	// refuses it. If argv[0] is a
	// symbolic link to a program of another name, Deny is asked a second time with that program's path. It must be
	// safe for concurrent use.
	Deny func(ctx context.Context, argv []string) error
	// Env is added to PATH and HOME of the worker, LANG=C.UTF-8, PWD and a TMPDIR of the call; nothing else of the
	// worker's environment is passed on.
	Env map[string]string
}

type execArgs struct {
	Argv           []string `json:"argv" jsonschema:"minItems=1" jsonschema_description:"the program and its arguments, one array element each"`
	TimeoutSeconds int      `json:"timeoutSeconds,omitempty" jsonschema:"minimum=1,maximum=3600,default=120" jsonschema_description:"the program is ended after this many seconds"`
}

// Exec returns the tool exec, which runs one program without a shell in the working directory of the agent. The
// program and everything it started end with the call. Its output is an Output. A bad configuration is a
// *fault.ConfigError.
func Exec(cfg ExecConfig) (*tool.Def, error) {
	command, err := newCommandConfig("exec", cfg.Env, cfg.Deny)
	if err != nil {
		return nil, err
	}
	run := func(ctx context.Context, call *tool.Context, in execArgs) (Output, error) {
		if strings.Contains(strings.Join(in.Argv, ""), "\x00") || in.Argv[0] == "" {
			return Output{}, tool.ModelRetry{Message: "argv names a program first and holds no NUL characters"}
		}
		return runCommand(ctx, command, call, in.TimeoutSeconds, func(ctx context.Context, r *commandRun) (int, error) {
			return r.program(ctx, in.Argv)
		})
	}
	return tool.New("exec",
		"Run one program in the working directory, without a shell: nothing in the arguments is expanded. "+
			"Standard input is empty. A non-zero exit code is a result, not an error. "+
			"Processes that are still running when the program ends are ended too.",
		run, tool.Execute, tool.Timeout(maxTimeout+time.Minute))
}

// program runs argv directly.
func (r *commandRun) program(ctx context.Context, argv []string) (int, error) {
	if err := r.check(ctx, argv); err != nil {
		return 0, err
	}
	path, err := interp.LookPathDir(r.dir, expand.ListEnviron(r.env...), argv[0])
	if err != nil {
		return 0, fmt.Errorf("run %q: no such program", argv[0])
	}
	if err := r.checkTarget(ctx, path, argv); err != nil {
		return 0, err
	}
	cmd := &exec.Cmd{Path: path, Args: argv, Env: slices.Clone(r.env), Dir: r.dir}
	code, err := r.jobs.run(ctx, cmd, r.out.in, r.err.in)
	if err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("run %q: %s", argv[0], startProblem(err))
	}
	return code, err
}

// checkTarget asks about the program that a symbolic link stands for, so that a rule about rm also meets a link to it.
func (r *commandRun) checkTarget(ctx context.Context, path string, argv []string) error {
	if r.deny == nil && r.rules == nil {
		return nil
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil || filepath.Base(target) == filepath.Base(argv[0]) {
		return nil
	}
	return r.check(ctx, append([]string{target}, argv[1:]...))
}

// startProblem says in plain words why a program did not start.
func startProblem(err error) string {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return "not an executable format; a script needs a #! line, or run it with its interpreter"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	case errors.Is(err, fs.ErrNotExist):
		return "the program, its interpreter or the directory does not exist"
	}
	return err.Error()
}
