package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/devserver/devservertest"
)

func TestMain(m *testing.M) { os.Exit(devservertest.Run(m)) }

func repository(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("hello\n"), 0o600))
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "base"}} {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return dir
}

// Three agents work at once; the one that changed the file of another is told of, and the repository stays as it is.
func TestExample(t *testing.T) {
	var stdout, stderr bytes.Buffer
	repo := repository(t)
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	code := run(ctx, []string{"--address", devservertest.Server(t).Address(), "--repo", repo, "--work", t.TempDir()}, nil, &stdout, &stderr)
	require.Zero(t, code, stderr.String())
	require.Regexp(t, `(?s)\Aintro: ok\ndiff --git a/INTRO.md b/INTRO.md\n.*\+intro\nguide: ok\ndiff .*\+guide\nindex: ok\ndiff .*\+index\n`+
		`conflict: GUIDE.md is changed by guide too\n\z`, stdout.String())
	names, err := os.ReadDir(repo)
	require.NoError(t, err)
	require.Len(t, names, 2, "nothing was applied")
}

func TestWrongUse(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, 2, run(context.Background(), []string{"--nothing"}, nil, &stdout, &stderr))
	require.Equal(t, 1, run(context.Background(), []string{"--repo", t.TempDir(), "--address", "127.0.0.1:1", "--work", t.TempDir()}, nil, &stdout, &stderr))
	require.Contains(t, stderr.String(), "error:")
}
