package devserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	manifestName = "complete.json"
	// keepFor is how long a program that nobody asked for stays in the cache. Each takes about 150 MB.
	keepFor = 30 * 24 * time.Hour
	// outputLines is how much of a failed build is shown.
	outputLines = 30
)

// BuildError reports that compiling the development server failed.
type BuildError struct {
	// Output is the last of what the compiler said.
	Output string
	// Cause is how the compiler ended.
	Cause error
}

func (e *BuildError) Error() string {
	return fmt.Sprintf("build the development server: %v\n%s", e.Cause, e.Output)
}

// Unwrap returns the cause.
func (e *BuildError) Unwrap() error { return e.Cause }

// programName is the file in a cache entry.
func programName() string {
	if runtime.GOOS == "windows" {
		return "devserver.exe"
	}
	return "devserver"
}

// manifest is written last into a cache entry: an entry without it, or whose program has another size, is half made.
type manifest struct {
	Size int64 `json:"size"`
}

// cached returns the program of the nested module in source, compiling it if the cache does not have it.
//
// The cache is <user cache>/assent/devserver/<hash>/, with one lock beside the entries. The lock belongs to the
// process that holds it and goes with it, so a builder that is killed leaves nothing behind but files to overwrite.
func (l *locator) cached(ctx context.Context, source string) (Binary, error) {
	hash, err := sourceHash(source)
	if err != nil {
		return Binary{}, &NotFoundError{Reason: "read the source of the development server", Cause: err, Hint: installHint}
	}
	base, err := l.cacheDir()
	if err != nil {
		return Binary{}, &NotFoundError{Reason: "no cache directory to build a server in", Cause: err, Hint: "set HOME or XDG_CACHE_HOME, or " + installHint}
	}
	dir := filepath.Join(base, "assent", "devserver")
	entry := filepath.Join(dir, hash)
	if b, ok := readEntry(ctx, entry); ok {
		return b, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Binary{}, &NotFoundError{Reason: "make the cache directory", Cause: err, Hint: "set XDG_CACHE_HOME to a writable directory, or " + installHint}
	}
	unlock, err := l.lock(ctx, filepath.Join(dir, "build.lock"))
	if err != nil {
		return Binary{}, err
	}
	defer unlock()
	if b, ok := readEntry(ctx, entry); ok { // another process built it while this one waited
		return b, nil
	}
	if err := l.build(ctx, source, dir, entry); err != nil {
		return Binary{}, err
	}
	prune(dir, hash)
	b, ok := readEntry(ctx, entry)
	if !ok {
		if ctx.Err() != nil {
			return Binary{}, ctx.Err()
		}
		return Binary{}, &BuildError{Cause: errors.New("the program that was built does not run"), Output: filepath.Join(entry, programName())}
	}
	return b, nil
}

// sourceHash identifies what a build would produce: the files that go into it and the Go version.
func sourceHash(source string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := d.Name()
		if name != "go.mod" && name != "go.sum" && (!strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go")) {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %d\n", filepath.ToSlash(rel), len(content))
		h.Write(content)
		return nil
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:10]), nil
}

// readEntry returns the program of a cache entry, if the entry is whole and the program runs.
func readEntry(ctx context.Context, entry string) (Binary, bool) {
	text, err := os.ReadFile(filepath.Join(entry, manifestName))
	if err != nil {
		return Binary{}, false
	}
	var m manifest
	if json.Unmarshal(text, &m) != nil {
		return Binary{}, false
	}
	program := filepath.Join(entry, programName())
	info, err := os.Stat(program)
	if err != nil || info.Size() != m.Size {
		return Binary{}, false
	}
	version, err := probe(ctx, program)
	if err != nil {
		return Binary{}, false
	}
	now := time.Now()
	_ = os.Chtimes(entry, now, now) // keeps it from being pruned; a cache that cannot be written is never pruned
	return Binary{Path: program, Version: version}, true
}

// build compiles source into a directory beside entry and renames it there.
func (l *locator) build(ctx context.Context, source, dir, entry string) error {
	tmp, err := os.MkdirTemp(dir, "building-")
	if err != nil {
		return fmt.Errorf("build the development server: %w", err)
	}
	defer os.RemoveAll(tmp)
	program := filepath.Join(tmp, programName())
	if err := l.compile(ctx, source, program); err != nil {
		return err
	}
	if err := complete(tmp, program); err != nil {
		return fmt.Errorf("build the development server: %w", err)
	}
	// A broken entry is in the way of the rename.
	if err := errors.Join(os.RemoveAll(entry), os.Rename(tmp, entry)); err != nil {
		return fmt.Errorf("build the development server: %w", err)
	}
	return nil
}

// complete makes sure that the program is on the disk and only then says so.
func complete(dir, program string) error {
	f, err := os.Open(program)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	text, err := json.Marshal(manifest{Size: info.Size()})
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), os.WriteFile(filepath.Join(dir, manifestName), text, 0o644))
}

// compile runs the Go compiler. It does not pass -trimpath: without it, `go run -C devserver .` and the nested
// module's tests use the same compiled packages, and the minutes are spent once.
func (l *locator) compile(ctx context.Context, source, program string) error {
	cmd := exec.CommandContext(ctx, goCommand(), "build", "-v", "-mod=readonly", "-buildvcs=false", "-ldflags=-s -w", "-o", program, ".")
	cmd.Dir = source
	// The program runs here and now, whatever the caller is being compiled for.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	out := &packageCounter{}
	cmd.Stdout, cmd.Stderr = out, out
	owned(cmd)

	cores := runtime.NumCPU()
	l.progress.line("building the Temporal development server, once per machine: about %s on %s (a `temporal` command on PATH would be used instead)",
		plural(max(1, (13+cores/2)/cores), "minute"), plural(cores, "core"))
	started := time.Now()
	tick := time.NewTicker(l.progress.every)
	defer tick.Stop()
	ended := make(chan error, 1)
	go func() {
		unlock := lockParentThread()
		defer unlock()
		ended <- cmd.Run()
	}()
	for {
		select {
		case err := <-ended:
			if ctx.Err() != nil {
				l.progress.line("… stopped after %s", elapsed(started))
				return ctx.Err()
			}
			if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
				return &NotFoundError{Reason: "no `temporal` and no `go` on PATH", Cause: err, Hint: installHint + ", or install Go"}
			}
			if err != nil {
				return &BuildError{Output: out.tail(), Cause: err}
			}
			l.progress.line("… built in %s, %s", elapsed(started), out.status())
			return nil
		case <-tick.C:
			l.progress.update("… %s, %s", elapsed(started), out.status())
		}
	}
}

// prune removes the entries that nobody has asked for lately and what killed builders left. The caller holds the
// lock, so nothing that is being built is among them.
func prune(dir, keep string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // there is always a next time
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || e.Name() == keep {
			continue
		}
		if strings.HasPrefix(e.Name(), "building-") || time.Since(info.ModTime()) > keepFor {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// packageCounter takes the output of `go build -v`, a line per package, and keeps the last lines for errors.
type packageCounter struct {
	mu      sync.Mutex
	partial []byte
	lines   []string
	// modules were fetched, packages compiled.
	modules, packages int
}

func (c *packageCounter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partial = append(c.partial, p...)
	for {
		line, rest, ok := bytes.Cut(c.partial, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		c.partial = rest
		c.lines = append(c.lines, string(line))
		if len(c.lines) > outputLines {
			c.lines = slices.Delete(c.lines, 0, 1)
		}
		if bytes.HasPrefix(line, []byte("go: downloading ")) {
			c.modules++
		} else if !bytes.Contains(line, []byte(" ")) { // others are headings and errors
			c.packages++
		}
	}
}

// status says how far the build is, for example `12 modules fetched, 3 packages compiled`.
func (c *packageCounter) status() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	compiled := plural(c.packages, "package") + " compiled"
	if c.modules == 0 {
		return compiled
	}
	return plural(c.modules, "module") + " fetched, " + compiled
}

func (c *packageCounter) tail() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(append(slices.Clone(c.lines), string(c.partial)), "\n")
}

var _ io.Writer = (*packageCounter)(nil)
