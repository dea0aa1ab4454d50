package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git"
)

// treeCall is one line to the driver's process, treeAnswer the line that comes back.
type treeCall struct {
	// Op is one of acquire, collect, dispose, settle (wait until nothing goes on behind a call), memory.
	Op    string         `json:"op"`
	Repo  string         `json:"repo,omitempty"`
	ID    string         `json:"id,omitempty"`
	Lease worktree.Lease `json:"lease"`
}

type treeAnswer struct {
	Error string         `json:"error,omitempty"`
	Lease worktree.Lease `json:"lease"`
	// Tree and Files are the result tree and the number of changed files, MB the answer to memory.
	Tree  string  `json:"tree,omitempty"`
	Files int     `json:"files,omitempty"`
	MB    float64 `json:"mb,omitempty"`
}

// treeDriver is the process that holds the driver, so that its memory is only its own.
type treeDriver struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// driverCommand is the argument that makes this program the driver's process.
const driverCommand = "worktree-driver"

func startTreeDriver(ctx context.Context, clean, bare, root string) (*treeDriver, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d := &treeDriver{cmd: exec.CommandContext(ctx, exe, driverCommand, clean, bare, root)}
	d.cmd.Stderr = os.Stderr
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.out = bufio.NewScanner(out)
	return d, d.cmd.Start()
}

func (d *treeDriver) call(ctx context.Context, c treeCall) (treeAnswer, error) {
	var a treeAnswer
	line, err := json.Marshal(c)
	if err != nil {
		return a, err
	}
	if _, err := d.in.Write(append(line, '\n')); err != nil {
		return a, errors.Join(ctx.Err(), err)
	}
	if !d.out.Scan() {
		return a, errors.Join(ctx.Err(), d.out.Err(), errors.New("the driver's process has ended"))
	}
	if err := json.Unmarshal(d.out.Bytes(), &a); err != nil {
		return a, err
	}
	if a.Error != "" {
		err = errors.New(a.Error)
	}
	return a, err
}

// stop ends the process: it has nothing more to read.
func (d *treeDriver) stop() {
	_ = d.in.Close()
	_ = d.cmd.Wait()
}

// serveTrees is the driver's process: it answers calls until stdin ends.
func serveTrees(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 3 {
		return fmt.Errorf("%s is started by worktree only", driverCommand)
	}
	d, err := git.New(git.Config{Repos: map[string]string{"clean": args[0], "bare": args[1]}, Root: args[2]})
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	in, out := bufio.NewScanner(stdin), json.NewEncoder(stdout)
	for in.Scan() {
		var c treeCall
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			return err
		}
		a, err := answerTrees(ctx, d, c)
		if err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return in.Err()
}

func answerTrees(ctx context.Context, d *git.Driver, c treeCall) (a treeAnswer, err error) {
	switch c.Op {
	case "acquire":
		at, err := d.Resolve(ctx, worktree.Isolation{Kind: worktree.Tree, Repo: c.Repo})
		if err != nil {
			return a, err
		}
		a.Lease, err = d.Acquire(ctx, worktree.Identity{Namespace: "bench", WorkflowID: c.ID}, at)
		return a, err
	case "collect":
		p, err := d.Collect(ctx, c.Lease)
		a.Tree, a.Files = p.Tree, len(p.Files)
		return a, err
	case "dispose":
		return a, d.Dispose(ctx, c.Lease, true)
	case "settle":
		return a, d.Close()
	case "memory":
		a.MB, err = peakMemory()
		return a, err
	}
	return a, fmt.Errorf("unknown call %q", c.Op)
}
