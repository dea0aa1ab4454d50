package toolbox

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

// The engines of the shell tool.
const (
	// EngineInterp interprets the command in this process and enforces at run time. It is the default.
	EngineInterp = "interp"
	// EngineSh hands the command to the system's /bin/sh. Nothing inside it is seen.
	EngineSh = "sh"
)

// ShellConfig configures the tool shell. Its zero value is useful.
type ShellConfig struct {
	// Engine is EngineInterp, EngineSh or empty for the default.
	Engine string
	// Deny is asked, after the deny rules of the call, about every command that is really executed, after all
	// expansion: programs, builtins and functions, in loops, functions, eval, sourced files, traps, subshells and
	// substitutions. An error ends the whole call with a *DeniedError. A command may be asked about more than once: as
	// it is written, behind the builtins command and exec, under the path of the program and each that a symbolic link
	// leads to, and with the interpreter that a script names. Deny runs concurrently and sees the context of the call.
	// What a program does by itself is not seen. EngineSh cannot ask, so it refuses a Deny, and no rule is enforced
	// inside it.
	Deny func(ctx context.Context, argv []string) error
	// Env is added to PATH and HOME of the worker, LANG=C.UTF-8, PWD and a TMPDIR of the call; nothing else of the
	// worker's environment is passed on.
	Env map[string]string
}

type shellArgs struct {
	Command        string `json:"command" jsonschema:"minLength=1" jsonschema_description:"the command line, in the language of bash"`
	TimeoutSeconds int    `json:"timeoutSeconds,omitempty" jsonschema:"minimum=1,maximum=3600,default=120" jsonschema_description:"the command is ended after this many seconds"`
}

const (
	interpDescription = "Run a command line in the working directory. The shell reads the language of bash, without job control " +
		"and with file descriptors 0 to 2 only; its redirections reach files in the working directory, in $TMPDIR, and /dev/null. " +
		"Standard input is empty. A non-zero exit code is a result, not an error. " +
		"Background processes are ended when the command line ends, and $TMPDIR is removed."
	shDescription = "Run a command line with /bin/sh in the working directory. " +
		"Standard input is empty. A non-zero exit code is a result, not an error. " +
		"Background processes are ended when the command line ends, and $TMPDIR is removed."
)

// Shell returns the tool shell, whose result is an Output. Programs are real processes; all of them, background jobs
// and their descendants included, end with the call. A bad configuration is a *fault.ConfigError.
func Shell(cfg ShellConfig) (*tool.Def, error) {
	command, err := newCommandConfig("shell", cfg.Env, cfg.Deny)
	if err != nil {
		return nil, err
	}
	body, description := (*commandRun).interpret, interpDescription
	switch cfg.Engine {
	case "", EngineInterp:
	case EngineSh:
		if cfg.Deny != nil {
			return nil, fault.Configf("shell.engine", "engine %s does not enforce at run time and cannot take Deny", EngineSh)
		}
		body, description = (*commandRun).sh, shDescription
	default:
		return nil, &fault.ConfigError{Key: "shell.engine", Msg: fmt.Sprintf("unknown engine %q", cfg.Engine), Allowed: []string{EngineInterp, EngineSh}}
	}
	run := func(ctx context.Context, call *tool.Context, in shellArgs) (Output, error) {
		program, err := readProgram(in.Command)
		if err != nil && cfg.Engine != EngineSh {
			return Output{}, tool.ModelRetry{Message: err.Error()}
		}
		return runCommand(ctx, command, call, in.TimeoutSeconds, func(ctx context.Context, r *commandRun) (int, error) {
			return body(r, ctx, shellProgram{text: in.Command, file: program})
		})
	}
	return tool.New("shell", description, run, tool.Execute, tool.Timeout(maxTimeout+time.Minute))
}

// sh runs the real shell.
func (r *commandRun) sh(ctx context.Context, p shellProgram) (int, error) {
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", p.text}, Env: slices.Clone(r.env), Dir: r.dir}
	code, err := r.jobs.run(ctx, cmd, r.out.in, r.err.in)
	if err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("run /bin/sh: %s", startProblem(err))
	}
	return code, err
}
