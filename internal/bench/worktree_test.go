package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain is also the driver's process that the benchmark starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == driverCommand {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// A small repository is enough to see that both sides do the same work; what they take is not judged here.
func TestWorktreesOfGitAndOursAreMeasured(t *testing.T) {
	host, m := t.TempDir(), newMaker()
	for i := range 300 {
		path := filepath.Join(host, m.path(i))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, m.text(i, 0), 0o666))
	}
	g := gitProgram{dir: t.TempDir()}
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "x"},
	} {
		require.NoError(t, g.quiet(t.Context(), host, args...))
	}
	var out, errs bytes.Buffer
	require.Equal(t, 0, run(t.Context(), []string{"worktree", "-print", "-n", "1", "-host", host}, nil, &out, &errs), errs.String())
	var names []string
	for line := range bytes.Lines(out.Bytes()) {
		var r ratio
		require.NoError(t, json.Unmarshal(line, &r))
		if r.Name != "" {
			names = append(names, r.Name)
			require.Positive(t, r.Ours, r.Name)
		}
	}
	require.Equal(t, []string{"acquire, clean host", "acquire, from packs", "first status", "collect", "dispose", "peak memory"}, names)
}

func TestMadeRepositoryIsTheSameEveryTime(t *testing.T) {
	one, two := newMaker(), newMaker()
	for _, i := range []int{0, 1, 60, 4711} {
		require.Equal(t, one.path(i), two.path(i))
		require.Equal(t, one.text(i, 7), two.text(i, 7))
	}
}

func TestWorktreeFlagsAreBounded(t *testing.T) {
	var out, errs bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"worktree", "-n", "0"}, nil, &out, &errs))
	require.Equal(t, 1, run(t.Context(), []string{driverCommand}, nil, &out, &errs))
}

func TestAPartIsMeasuredOnlyByItsName(t *testing.T) {
	for _, args := range [][]string{{}, {"nothing"}, {"park", "bare"}, {replayPart, kindBare, t.TempDir()}} {
		var out, errs bytes.Buffer
		require.Equal(t, 1, run(t.Context(), append([]string{partCommand}, args...), nil, &out, &errs), args)
		require.Empty(t, out.String())
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"engine", "-only", "nothing"}, nil, &out, &errs))
}
