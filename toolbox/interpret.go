package toolbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
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
	guard := newGuard(r, files)
	if _, err := guard.bodies.extract(p.file); err != nil {
		return 0, err
	}
	runner, err := interp.New(
		interp.Dir(r.dir),
		interp.Env(expand.ListEnviron(r.env...)),
		interp.StdIO(stdin, r.out.in, r.err.in),
		interp.CallHandler(guard.call),
		interp.OpenHandler(guard.open),
		interp.ReadDirHandler2(readDir),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return guard.execute }),
	)
	if err != nil {
		return 0, err
	}
	watched, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	go guard.watchMemory(watched)

	over, released := make(chan struct{}), make(chan struct{})
	go func() { defer close(released); releasePipes(ctx, r.temp, over) }()
	err = r.runFile(ctx, runner, p.file)
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

var errShellFailed = errors.New("the shell itself failed")

var errStuck = errors.New("the shell does not stop")

// runFile runs a program. The interpreter looks at its context between commands, not while it expands a word, so one
// that goes on for long when its time is over is left alone: it can start no command any more.
func (r *commandRun) runFile(ctx context.Context, runner *interp.Runner, file *syntax.File) error {
	done := make(chan error, 1)
	go func() {
		err := errShellFailed
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: %v", errShellFailed, p)
			}
			done <- err
		}()
		err = runner.Run(ctx, file)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(5 * r.jobs.grace)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errStuck
	}
}

// readDir reads a directory for a pattern such as /**, which would otherwise go on when the call is over.
func readDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return os.ReadDir(path)
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
	if err := r.checkTargets(ctx, hc.Dir, hc.Env, argv); err != nil {
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
