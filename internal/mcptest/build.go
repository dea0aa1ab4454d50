package mcptest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

const (
	ownServer = "github.com/assent-dev/assent/internal/mcptest/server"
	sdk       = "github.com/modelcontextprotocol/go-sdk"
)

// staleAfter is when a program that no test has used is removed.
const staleAfter = 7 * 24 * time.Hour

var built struct {
	mu    sync.Mutex
	paths map[string]string
}

// Command is the test server over stdio, with flags.
func Command(tb testing.TB, flags ...string) []string {
	tb.Helper()
	return append([]string{program(tb, ownServer)}, flags...)
}

// SDKExample is the program of an example of the official Go SDK, such as server/memory, at the version of go.mod.
func SDKExample(tb testing.TB, name string) string {
	tb.Helper()
	return program(tb, sdk+"/examples/"+name)
}

// program builds a package of this module or of one that it needs, once for each process.
func program(tb testing.TB, pkg string) string {
	tb.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if path, ok := built.paths[pkg]; ok {
		return path
	}
	path, err := build(pkg)
	if err != nil {
		tb.Fatalf("build %s: %v", pkg, err)
	}
	if built.paths == nil {
		built.paths = map[string]string{}
	}
	built.paths[pkg] = path
	return path
}

// build compiles a program and gives it a name by its content, so that test processes that run at once share it.
func build(pkg string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "assent", "mcptest")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	sweep(dir)
	fresh, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	out := filepath.Join(fresh, "program")
	// Go's own cache makes this quick after the first time.
	if text, err := exec.Command("go", "build", "-buildvcs=false", "-o", out, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	sum, err := digest(out)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, filepath.Base(pkg)+"-"+sum[:16])
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	now := time.Now()
	if err := os.Chtimes(path, now, now); err == nil {
		return path, nil
	}
	if err := os.Rename(out, path); err != nil {
		if _, taken := os.Stat(path); taken != nil {
			return "", err
		}
	}
	return path, nil
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sweep removes programs of versions that nobody tests any more.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}
