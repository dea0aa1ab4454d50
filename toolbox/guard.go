package toolbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/interp"
)

// jobName is what $! holds in this shell, where background jobs are no processes.
var jobName = regexp.MustCompile(`^g\d+$`)

// guard looks at every command before the interpreter acts on it, and opens its files.
type guard struct {
	run   *commandRun
	files *shellFiles
	limits
	bodies *bodies

	mu sync.Mutex
	// sourced holds texts that were read and checked, by the names under which the interpreter opens them.
	sourced map[string]string
	count   int
}

func newGuard(r *commandRun, files *shellFiles) *guard {
	return &guard{run: r, files: files, limits: newLimits(r.stop, r.memory), bodies: newBodies("job-" + rand.Text()), sourced: map[string]string{}}
}

// call is the interpreter's handler for all simple commands: functions, builtins and programs.
func (g *guard) call(ctx context.Context, argv []string) ([]string, error) {
	if err := g.checkDepth(); err != nil {
		return argv, err
	}
	if argv[0] == g.bodies.name {
		return argv, nil
	}
	if err := g.run.check(ctx, argv); err != nil {
		return argv, err
	}
	hc := interp.HandlerCtx(ctx)
	words := builtinOf(argv)
	if len(words) == 0 {
		return argv, nil
	}
	name, args := words[0], words[1:]
	if err := checkBuiltin(name); err != nil {
		return argv, g.refuse(err)
	}
	switch name {
	case "eval":
		return g.texts(argv, len(argv)-len(args), strings.Join(args, " "))
	case "trap":
		return g.texts(argv, len(argv)-len(args), args...)
	case "source", ".":
		return g.source(ctx, argv, len(argv)-len(args))
	case "shopt":
		if slices.Contains(args, "expand_aliases") {
			return argv, g.refuse(errAliases)
		}
	case "kill":
		return g.kill(hc, words), nil
	}
	return argv, nil
}

// texts checks the texts that a builtin runs and puts them in the place of its arguments, which begin at at.
func (g *guard) texts(argv []string, at int, texts ...string) ([]string, error) {
	out := slices.Clone(argv[:at])
	for _, text := range texts {
		err := checkText(text)
		if err == nil {
			text, err = g.bodies.extractText(text)
		}
		if err != nil {
			return argv, g.refuse(err)
		}
		out = append(out, text)
	}
	return out, nil
}

// execute runs a program, or a part of this one.
func (g *guard) execute(ctx context.Context, argv []string) error {
	if argv[0] == g.bodies.name {
		err := g.bodies.run(ctx, argv)
		if errors.Is(err, errShellFailed) {
			g.run.stop(err)
		}
		return err
	}
	return g.run.execute(ctx, argv)
}

// builtinOf returns the words from the builtin on that the interpreter would run for argv: it takes the builtins command
// and builtin off first.
func builtinOf(argv []string) []string {
	for len(argv) > 0 {
		switch argv[0] {
		case "builtin":
			argv = argv[1:]
		case "command":
			argv = argv[1:]
			if len(argv) > 0 && argv[0] == "--" {
				argv = argv[1:]
			}
		default:
			return argv
		}
	}
	return nil
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

// source reads the file that the builtin of that name is given and checks it. The interpreter then gets exactly the text
// that was checked, because a file may change in between.
func (g *guard) source(ctx context.Context, argv []string, at int) ([]string, error) {
	if at >= len(argv) {
		return argv, nil
	}
	hc := interp.HandlerCtx(ctx)
	text, err := g.readSource(ctx, hc, argv[at])
	if err != nil {
		if ctx.Err() != nil {
			return argv, context.Cause(ctx)
		}
		fmt.Fprintf(hc.Stderr, "source: %v\n", err)
		return []string{"false"}, nil
	}
	if err := checkText(text); err != nil {
		return argv, g.refuse(fmt.Errorf("source %q: %w", argv[at], err))
	}
	if text, err = g.bodies.extractText(text); err != nil {
		return argv, g.refuse(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count++
	// No file has a name with a NUL character, and no word of a command holds one.
	name := fmt.Sprintf("\x00%d %s", g.count, argv[at])
	g.sourced[name] = text
	argv = slices.Clone(argv)
	argv[at] = name
	return argv, nil
}

// readSource returns a file that is to be sourced, or a little more than may be read of it.
func (g *guard) readSource(ctx context.Context, hc interp.HandlerContext, name string) (string, error) {
	f, err := g.openSource(ctx, hc, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxProgram+1))
	return string(text), err
}

func (g *guard) openSource(ctx context.Context, hc interp.HandlerContext, name string) (io.ReadCloser, error) {
	if filepath.Dir(name) == g.run.temp && strings.HasPrefix(filepath.Base(name), pipePrefix) {
		return os.Open(name) // a process substitution; releasePipes ends the wait for its writer
	}
	return g.files.open(ctx, findSourced(hc, name), os.O_RDONLY, 0)
}

// open is the interpreter's handler for files.
func (g *guard) open(ctx context.Context, path string, flag int, perm os.FileMode) (io.ReadWriteCloser, error) {
	g.mu.Lock()
	text, found := g.sourced[path]
	delete(g.sourced, path)
	g.mu.Unlock()
	if found {
		return sourcedText{strings.NewReader(text)}, nil
	}
	return g.files.open(ctx, path, flag, perm)
}

// sourcedText is a text in memory as the interpreter opens it.
type sourcedText struct{ io.Reader }

func (sourcedText) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }
func (sourcedText) Close() error              { return nil }

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
