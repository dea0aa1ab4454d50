package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// treeOptions are the flags of `bench worktree`.
type treeOptions struct {
	// host is a repository to measure on, empty to make one. It is cloned and never written to.
	host string
	// rounds is how often everything is measured; one round more comes before, to warm caches, and does not count.
	rounds int
}

// leastFiles is the size from which the targets mean something.
const leastFiles = 10_000

// treeBench measures the worktree driver, in a process of its own, against the git program in turn.
type treeBench struct {
	dir string // everything is below it, so that both write to one file system
	// clean is a clone with a checkout, bare one that is nothing but a pack.
	clean, bare string
	commit      string
	edits       edits
	driver      *treeDriver
	git         gitProgram
	got         map[string]*pair
}

// pair is what was measured of git and of the driver, in milliseconds.
type pair struct{ ours, git []float64 }

// treeTargets are the lines of the report in their order.
var treeTargets = []struct {
	name   string
	atMost float64
	of     string
}{
	{"acquire, clean host", 0.6, "median ms of Resolve and Acquire of a host whose checkout is clean; of `git worktree add --detach`"},
	{"acquire, from packs", 1.25, "the same of a bare host with one pack"},
	{"first status", 0.6, "median ms of the first `git status` in the driver's tree; in git's tree"},
	{"collect", 1.0, "median ms of Collect with 20 files edited, 5 new, 3 deleted, 1 binary; of `git add -A`, `write-tree`, `diff-tree --binary` with a temporary index"},
	{"dispose", 0.1, "median ms of Dispose as its caller sees it; of `git worktree remove --force`"},
}

const mostMemory = 128 // MB

func worktrees(ctx context.Context, o treeOptions, stdout, stderr io.Writer) (err error) {
	if o.rounds < 1 || o.rounds > 100 {
		return fmt.Errorf("-n must be from 1 to 100, got %d", o.rounds)
	}
	b := &treeBench{got: map[string]*pair{}}
	if b.dir, err = os.MkdirTemp("", "assent-bench-worktree-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	b.git = gitProgram{dir: b.dir}
	about, err := b.prepare(ctx, o.host, stderr)
	if err != nil {
		return err
	}
	if b.driver, err = startTreeDriver(ctx, b.clean, b.bare, filepath.Join(b.dir, "root")); err != nil {
		return err
	}
	defer b.driver.stop()
	about["rounds"], about["cpus"], about["load"] = o.rounds, runtime.NumCPU(), load()
	out := json.NewEncoder(stdout)
	if err := out.Encode(about); err != nil {
		return err
	}
	for i := range o.rounds + 1 {
		if err := b.round(ctx, i); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if i == 0 {
			clear(b.got)
		}
	}
	memory, err := b.driver.call(ctx, treeCall{Op: "memory"})
	if err != nil {
		return err
	}
	return b.report(out, memory.MB)
}

func (b *treeBench) report(out *json.Encoder, memory float64) error {
	var lines []ratio
	for _, t := range treeTargets {
		p := b.got[t.name]
		ours, git := middle(p.ours), middle(p.git)
		lines = append(lines, ratio{Name: t.name, Value: ours / git, Unit: "ratio", AtMost: t.atMost, Ours: ours, Bare: git, Of: t.of})
	}
	lines = append(lines, ratio{Name: "peak memory", Value: memory, Unit: "MB", AtMost: mostMemory, Ours: memory, Bare: b.git.peakMB,
		Of: "the most resident memory that the driver's process ever had; that any of the git processes had"})
	var missed []string
	for _, r := range lines {
		if r = r.judged(); !r.Pass {
			missed = append(missed, r.Name)
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	if err := out.Encode(map[string]any{"load": load(), "missed": len(missed)}); err != nil {
		return err
	}
	if len(missed) > 0 {
		return &missedError{missed}
	}
	return nil
}

// treeRound is what one round makes: a tree of each host, of git and of the driver.
type treeRound struct {
	*treeBench
	n               int
	theirs, theirsB string
	ours, oursB     treeAnswer
	index           string
	tree            string // what git collected
}

// round measures everything once: git and the driver in turn, and the other first in every other round.
func (b *treeBench) round(ctx context.Context, n int) error {
	path := filepath.Join(b.dir, "git", fmt.Sprint("tree-", n))
	r := &treeRound{treeBench: b, n: n, theirs: path, theirsB: path + "-bare", index: filepath.Join(b.dir, "index.tmp")}
	steps := []struct {
		name      string
		git, ours func(context.Context) error
	}{
		{"acquire, clean host", r.add(b.clean, r.theirs), r.acquire("clean", &r.ours)},
		{"acquire, from packs", r.add(b.bare, r.theirsB), r.acquire("bare", &r.oursB)},
		{"first status", r.status(&r.theirs), r.status(&r.ours.Lease.Dir)},
		{"", r.editTheirs, r.editOurs},
		{"collect", r.collectTheirs, r.collectOurs},
		{"dispose", r.remove(b.clean, r.theirs), r.dispose(&r.ours)},
		{"", r.remove(b.bare, r.theirsB), r.dispose(&r.oursB)},
	}
	for _, s := range steps {
		if err := b.step(ctx, n, s.name, s.git, s.ours); err != nil {
			return err
		}
	}
	if r.ours.Tree != r.tree || r.ours.Files != b.edits.count() {
		return fmt.Errorf("collect: %d files and tree %s, git has %d and %s", r.ours.Files, r.ours.Tree, b.edits.count(), r.tree)
	}
	return nil
}

func (r *treeRound) add(host, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		return r.git.quiet(ctx, host, "worktree", "add", "--detach", path, r.commit)
	}
}

func (r *treeRound) acquire(repo string, into *treeAnswer) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		*into, err = r.driver.call(ctx, treeCall{Op: "acquire", Repo: repo, ID: fmt.Sprint(repo, r.n)})
		return err
	}
}

func (r *treeRound) status(dir *string) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := r.git.text(ctx, *dir, "status", "--porcelain")
		if err == nil && out != "" {
			err = fmt.Errorf("%s is not clean: %.200s", *dir, out)
		}
		return err
	}
}

// editTheirs makes the edits in git's tree and a copy of its index, which is not measured.
func (r *treeRound) editTheirs(ctx context.Context) error {
	if err := r.edits.apply(r.theirs, r.n); err != nil {
		return err
	}
	path, err := r.git.line(ctx, r.theirs, "rev-parse", "--path-format=absolute", "--git-path", "index")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(r.index, data, 0o600)
}

func (r *treeRound) editOurs(context.Context) error { return r.edits.apply(r.ours.Lease.Dir, r.n) }

func (r *treeRound) collectTheirs(ctx context.Context) (err error) {
	r.tree, err = r.git.collect(ctx, r.theirs, r.commit, r.index)
	return err
}

func (r *treeRound) collectOurs(ctx context.Context) error {
	got, err := r.driver.call(ctx, treeCall{Op: "collect", Lease: r.ours.Lease})
	r.ours.Tree, r.ours.Files = got.Tree, got.Files
	return err
}

func (r *treeRound) remove(host, path string) func(context.Context) error {
	return func(ctx context.Context) error { return r.git.quiet(ctx, host, "worktree", "remove", "--force", path) }
}

func (r *treeRound) dispose(of *treeAnswer) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := r.driver.call(ctx, treeCall{Op: "dispose", Lease: of.Lease})
		return err
	}
}

// step measures one thing of both. Before each, what was written earlier is brought to disk, so that neither pays
// for the other.
func (b *treeBench) step(ctx context.Context, round int, name string, git, ours func(context.Context) error) error {
	p := b.got[name]
	if p == nil {
		p = new(pair)
		b.got[name] = p
	}
	both := []struct {
		who  string
		do   func(context.Context) error
		into *[]float64
	}{{"git", git, &p.git}, {"ours", ours, &p.ours}}
	if round%2 == 1 {
		both[0], both[1] = both[1], both[0]
	}
	for _, one := range both {
		if _, err := b.driver.call(ctx, treeCall{Op: "settle"}); err != nil {
			return err
		}
		if err := b.git.sync(ctx); err != nil {
			return err
		}
		began := time.Now()
		if err := one.do(ctx); err != nil {
			return fmt.Errorf("%s: %s: %w", name, one.who, err)
		}
		*one.into = append(*one.into, float64(time.Since(began).Microseconds())/1000)
	}
	return nil
}
