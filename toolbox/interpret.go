package toolbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
)

// interpret runs a program in this process. Programs that it calls are processes of the call.
func (r *commandRun) interpret(ctx context.Context, p shellProgram) (int, error) {
	files, err := openShellFiles(r.dir, r.temp)
	if err != nil {
		return 0, err
	}
	// Background jobs use these until the call is over.
	r.cleanup = append(r.cleanup, files.close)
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	r.cleanup = append(r.cleanup, func() { _ = stdin.Close() })
	guard := newGuard(r)
	runner, err := interp.New(
		interp.Dir(r.dir),
		interp.Env(expand.ListEnviron(r.env...)),
		interp.StdIO(stdin, r.out.in, r.err.in),
		interp.CallHandler(guard.call),
		interp.OpenHandler(files.open),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return r.execute }),
	)
	if err != nil {
		return 0, err
	}
	watched, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	go guard.watchMemory(watched)

	over, released := make(chan struct{}), make(chan struct{})
	go func() { defer close(released); releasePipes(ctx, r.temp, over) }()
	err = runner.Run(ctx, p.file)
	awaitPipes(ctx, r.temp)
	// What still runs in the background sees its context end now.
	r.stop(errFinished)
	close(over)
	<-released
	var status interp.ExitStatus
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &status):
		return int(status), nil
	}
	return 0, err
}

// execute runs one program for the interpreter. A program that cannot be started is an exit code, as in every shell.
func (r *commandRun) execute(ctx context.Context, argv []string) error {
	hc := interp.HandlerCtx(ctx)
	if err := r.check(ctx, argv); err != nil {
		return err
	}
	path, err := interp.LookPathDir(hc.Dir, hc.Env, argv[0])
	if err != nil {
		fmt.Fprintf(hc.Stderr, "%s: command not found\n", argv[0])
		return interp.ExitStatus(127)
	}
	if err := r.checkTarget(ctx, path, argv); err != nil {
		return err
	}
	cmd := &exec.Cmd{Path: path, Args: argv, Env: exported(hc), Dir: hc.Dir, Stdin: hc.Stdin}
	code, err := r.jobs.run(ctx, cmd, hc.Stdout, hc.Stderr)
	switch {
	case err == nil && code == 0:
		return nil
	case err == nil:
		return interp.ExitStatus(code)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	fmt.Fprintf(hc.Stderr, "%s: %s\n", argv[0], startProblem(err))
	return interp.ExitStatus(126)
}

// exported returns the variables that a program inherits.
func exported(hc interp.HandlerContext) []string {
	vars := map[string]string{}
	hc.Env.Each(func(name string, v expand.Variable) bool {
		delete(vars, name)
		if v.IsSet() && v.Exported && v.Kind == expand.String {
			vars[name] = name + "=" + v.String()
		}
		return true
	})
	vars["PWD"] = "PWD=" + hc.Dir
	list := make([]string, 0, len(vars))
	for _, entry := range vars {
		list = append(list, entry)
	}
	slices.Sort(list)
	return list
}

// jobName is what $! holds in this shell, where background jobs are no processes.
var jobName = regexp.MustCompile(`^g\d+$`)

// guard looks at every command before the interpreter acts on it.
type guard struct {
	run *commandRun
	limits
}

func newGuard(r *commandRun) *guard { return &guard{run: r, limits: newLimits(r.stop, r.memory)} }

// call is the interpreter's handler for all simple commands: functions, builtins and programs.
func (g *guard) call(ctx context.Context, argv []string) ([]string, error) {
	if err := g.checkDepth(); err != nil {
		return argv, err
	}
	if err := g.run.check(ctx, argv); err != nil {
		return argv, err
	}
	hc := interp.HandlerCtx(ctx)
	words := argv
	for len(words) > 1 && (words[0] == "builtin" || words[0] == "command") {
		words = words[1:]
	}
	switch name, args := words[0], words[1:]; name {
	case "eval":
		return argv, g.refuse(checkSize(strings.Join(args, " ")))
	case "trap":
		return argv, g.refuse(checkSize(strings.Join(args, " ")))
	case "source", ".":
		return g.sourced(hc, argv, len(argv)-len(args))
	case "shopt":
		if slices.Contains(args, "expand_aliases") {
			return argv, g.refuse(errors.New("this shell does not support aliases"))
		}
	case "kill":
		return g.kill(hc, words), nil
	}
	return argv, nil
}

// refuse ends the call if there is an error.
func (g *guard) refuse(err error) error {
	if err != nil {
		g.run.stop(err)
	}
	return err
}

// kill hands over to the program of that name, because the interpreter has no such builtin.
func (g *guard) kill(hc interp.HandlerContext, words []string) []string {
	for _, arg := range words[1:] {
		if jobName.MatchString(arg) || strings.HasPrefix(arg, "%") {
			fmt.Fprintf(hc.Stderr, "kill: %s: a job that was started with & has no process id in this shell; it ends with the call\n", arg)
			return []string{"false"}
		}
	}
	path, err := interp.LookPathDir(hc.Dir, hc.Env, "kill")
	if err != nil {
		fmt.Fprintln(hc.Stderr, "kill: command not found")
		return []string{"false"}
	}
	return append([]string{path}, words[1:]...)
}

// sourced makes the path of a file to source absolute, the way the interpreter would find it, and refuses a file that
// could not be parsed safely. That the file may change in between is no escape: what it runs is checked command by command.
func (g *guard) sourced(hc interp.HandlerContext, argv []string, at int) ([]string, error) {
	if at >= len(argv) {
		return argv, nil
	}
	path := findSourced(hc, argv[at])
	f, err := os.Open(path)
	if err != nil {
		return argv, nil // the interpreter reports it
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return argv, nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxProgram+1))
	if err != nil {
		return argv, nil
	}
	if err := checkSize(string(text)); err != nil {
		return argv, g.refuse(fmt.Errorf("source %q: %w", argv[at], err))
	}
	argv = slices.Clone(argv)
	argv[at] = path
	return argv, nil
}

// findSourced looks for a name without a slash along PATH and then in the current directory.
func findSourced(hc interp.HandlerContext, name string) string {
	dirs := []string{""}
	if !strings.Contains(name, "/") {
		dirs = append(filepath.SplitList(hc.Env.Get("PATH").String()), "")
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if !filepath.IsAbs(path) {
			path = filepath.Join(hc.Dir, path)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return name
}
