package toolbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"

	"github.com/assent-dev/assent/permission/argv"
	"github.com/assent-dev/assent/tool"
)

// ExecConfig configures the tool exec. Its zero value is useful.
type ExecConfig struct {
	// Deny is asked, after the deny rules of the call, about the argument array before the program starts; an error
	// refuses it. It is asked again with the path at which the program was found, with each that a symbolic link leads
	// to, and with the interpreter that a script names. It must be safe for concurrent use.
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

// program runs args directly.
func (r *commandRun) program(ctx context.Context, args []string) (int, error) {
	if err := r.check(ctx, args); err != nil {
		return 0, err
	}
	path, err := interp.LookPathDir(r.dir, expand.ListEnviron(r.env...), args[0])
	if err != nil {
		return 0, fmt.Errorf("run %q: no such program", args[0])
	}
	if err := r.checkTargets(ctx, r.dir, expand.ListEnviron(r.env...), args); err != nil {
		return 0, err
	}
	cmd := &exec.Cmd{Path: path, Args: args, Env: slices.Clone(r.env), Dir: r.dir}
	code, err := r.jobs.run(ctx, cmd, r.out.in, r.err.in)
	if err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("run %q: %s", args[0], startProblem(err))
	}
	return code, err
}

// maxScripts bounds how many scripts may have one another for interpreter; Linux allows five.
const maxScripts = 5

// maxTargets bounds how many programs behind one another are looked up.
const maxTargets = 64

// checkTargets asks about what the programs of args, its own and those behind wrappers, are in the file system.
func (r *commandRun) checkTargets(ctx context.Context, dir string, env expand.Environ, args []string) error {
	if r.deny == nil && r.rules == nil {
		return nil
	}
	programs := argv.Programs(args)
	for _, program := range programs[:min(len(programs), maxTargets)] {
		path, err := interp.LookPathDir(dir, env, program[0])
		if err != nil {
			continue
		}
		if err := r.checkTarget(ctx, dir, path, program); err != nil {
			return err
		}
	}
	return nil
}

// checkTarget asks about the program at path under the path itself, under each that symbolic links lead to, and with the
// interpreter that a script names in its first line. So a rule about rm also meets a link to it and a script that begins
// with #!/bin/rm. program is the argument list that was asked about.
func (r *commandRun) checkTarget(ctx context.Context, dir, path string, program []string) error {
	asked := program[0]
	for range maxScripts {
		target, err := r.checkLinks(ctx, path, asked, program[1:])
		if err != nil {
			return err
		}
		interpreter := interpreterOf(target)
		if len(interpreter) == 0 {
			return nil
		}
		program = slices.Concat(interpreter, []string{path}, program[1:])
		if err := r.check(ctx, program); err != nil {
			return err
		}
		if asked, path = program[0], program[0]; !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
	}
	return nil
}

// checkLinks follows the symbolic links at path and returns where they end. asked is the name that was asked about.
func (r *commandRun) checkLinks(ctx context.Context, path, asked string, args []string) (string, error) {
	for range 40 { // as many as Linux follows
		if path != asked {
			if err := r.check(ctx, append([]string{path}, args...)); err != nil {
				return "", err
			}
		}
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				break
			}
			to = filepath.Join(dir, to)
		}
		path, asked = to, ""
	}
	return path, nil
}

// interpreterOf returns the program, and perhaps one argument, that the first line of a script names.
func interpreterOf(path string) []string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 4<<10) // the systems read at most so much
	n, _ := io.ReadFull(f, head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	line, isScript := strings.CutPrefix(line, "#!")
	if !isScript {
		return nil
	}
	line = strings.Trim(line, " \t\r")
	end := strings.IndexAny(line, " \t")
	if line == "" || end < 0 {
		return strings.Fields(line)
	}
	return []string{line[:end], strings.TrimLeft(line[end:], " \t")}
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
