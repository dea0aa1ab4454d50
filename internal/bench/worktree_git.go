package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// gitProgram runs git in a closed environment, with everything off that would start other programs.
type gitProgram struct {
	dir string
	// peakMB is the most resident memory that one of its processes had.
	peakMB float64
}

func (g *gitProgram) run(ctx context.Context, dir string, stdin io.Reader, env []string, args ...string) ([]byte, error) {
	args = append([]string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
		"-c", "advice.detachedHead=false"}, args...)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "LC_ALL=C", "TZ=UTC", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
	}, env...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", strings.Join(args[10:], " "), err, errs.String())
	}
	g.peakMB = max(g.peakMB, peakOf(cmd.ProcessState))
	return out.Bytes(), nil
}

func (g *gitProgram) quiet(ctx context.Context, dir string, args ...string) error {
	_, err := g.run(ctx, dir, nil, nil, args...)
	return err
}

func (g *gitProgram) text(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := g.run(ctx, dir, nil, nil, args...)
	return string(out), err
}

func (g *gitProgram) line(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := g.text(ctx, dir, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// collect makes the patch of a tree as people do it who must not touch its index.
func (g *gitProgram) collect(ctx context.Context, tree, base, index string) (id string, err error) {
	env := []string{"GIT_INDEX_FILE=" + index}
	if _, err = g.run(ctx, tree, nil, env, "add", "-A"); err != nil {
		return "", err
	}
	out, err := g.run(ctx, tree, nil, env, "write-tree")
	if err != nil {
		return "", err
	}
	id = strings.TrimSpace(string(out))
	_, err = g.run(ctx, tree, nil, env, "diff-tree", "-p", "--binary", "--full-index", "--no-renames", base, id)
	return id, err
}

// sync brings what was written to disk.
func (g *gitProgram) sync(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "sync", "-f", g.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("sync: %w: %s", err, out)
	}
	return nil
}
