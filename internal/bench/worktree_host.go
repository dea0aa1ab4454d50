package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The repository that is made when none is given: files of the sizes of source code, some binary, a few folders
// deep down, and a history that leaves deltas in the pack.
const (
	madeFiles   = 12_000
	madeCommits = 8
	madeEdits   = 600 // files that each further commit changes
)

// prepare makes the two hosts and chooses what will be edited. It returns the first line of the report.
func (b *treeBench) prepare(ctx context.Context, host string, stderr io.Writer) (map[string]any, error) {
	name := host
	if host == "" {
		name = fmt.Sprintf("made: %d files, %d commits", madeFiles, madeCommits)
		host = filepath.Join(b.dir, "made")
		fmt.Fprintln(stderr, "making a repository …")
		if err := b.generate(ctx, host); err != nil {
			return nil, err
		}
	} else if _, err := b.git.line(ctx, host, "rev-parse", "--verify", "HEAD^{commit}"); err != nil {
		return nil, err
	}
	fmt.Fprintln(stderr, "cloning it twice …")
	b.clean, b.bare = filepath.Join(b.dir, "clean"), filepath.Join(b.dir, "bare.git")
	for _, args := range [][]string{
		{"clone", "-q", "--no-local", "--bare", host, b.bare}, {"clone", "-q", "--no-local", host, b.clean},
	} {
		if err := b.git.quiet(ctx, b.dir, args...); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(filepath.Join(b.dir, "git"), 0o700); err != nil {
		return nil, err
	}
	var err error
	if b.commit, err = b.git.line(ctx, b.clean, "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	version, err := b.git.line(ctx, b.dir, "version")
	if err != nil {
		return nil, err
	}
	list, err := b.git.text(ctx, b.bare, "ls-tree", "-r", "-l", "-z", "HEAD")
	if err != nil {
		return nil, err
	}
	files, bytes, err := b.edits.choose(list)
	if err != nil {
		return nil, err
	}
	if files < leastFiles {
		fmt.Fprintf(stderr, "only %d files: the targets are for %d and more\n", files, leastFiles)
	}
	return map[string]any{"host": name, "files": files, "bytes": bytes, "commit": b.commit, "git": version, "dir": b.dir}, nil
}

// edits are the changes that are made in every tree, the same in git's and in the driver's.
type edits struct {
	edited, deleted, added []string
	binary                 string
}

func (e *edits) count() int { return len(e.edited) + len(e.deleted) + len(e.added) + 1 }

// choose picks files all over the tree from the lines of `ls-tree -r -l -z`, and returns how many files there are
// and their size in bytes.
func (e *edits) choose(list string) (files int, size int64, err error) {
	var some []string
	for line := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		head, path, _ := strings.Cut(line, "\t")
		f := strings.Fields(head)
		if len(f) != 4 || f[1] != "blob" {
			continue
		}
		n, _ := strconv.ParseInt(f[3], 10, 64)
		files, size = files+1, size+n
		if f[0] == "100644" && n > 500 && n < 100_000 && !strings.HasPrefix(filepath.Base(path), ".git") {
			some = append(some, path)
		}
	}
	const changed, removed = 20, 3
	if len(some) < 10*changed {
		return 0, 0, fmt.Errorf("only %d of the repository's files are of a size to edit", len(some))
	}
	for i := range changed + removed {
		path := some[i*len(some)/(changed+removed)]
		if i%8 == 7 || i == changed+removed-1 {
			e.deleted = append(e.deleted, path)
		} else {
			e.edited = append(e.edited, path)
		}
	}
	for i := range 5 {
		e.added = append(e.added, filepath.Join(filepath.Dir(e.edited[4*i]), fmt.Sprintf("assent_bench_new_%d.txt", i)))
	}
	e.binary = "assent_bench.bin"
	return files, size, nil
}

// apply changes a tree. What is written differs from round to round, so that git cannot find it stored already.
func (e *edits) apply(tree string, round int) error {
	mark := fmt.Sprintf("a line of round %d\n", round)
	for _, path := range e.edited {
		data, err := os.ReadFile(filepath.Join(tree, path))
		if err != nil {
			return err
		}
		at := len(data)/3 + 1 + bytes.IndexByte(data[len(data)/3:], '\n')
		data = append(data[:at:at], append([]byte(mark), data[at:]...)...)
		if err := os.WriteFile(filepath.Join(tree, path), data, 0o666); err != nil {
			return err
		}
	}
	for _, path := range e.deleted {
		if err := os.Remove(filepath.Join(tree, path)); err != nil {
			return err
		}
	}
	for i, path := range e.added {
		if err := os.WriteFile(filepath.Join(tree, path), []byte(strings.Repeat(mark, 50*(i+1))), 0o666); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(tree, e.binary), noise(rand.New(rand.NewPCG(2, uint64(round))), 64<<10), 0o666)
}

// generate makes a repository by `git fast-import`. Its content depends on nothing but this code.
func (b *treeBench) generate(ctx context.Context, dir string) error {
	if err := b.git.quiet(ctx, b.dir, "init", "-q", "--bare", "-b", "main", dir); err != nil {
		return err
	}
	// It is written as it is read, because a process starts with its parent's size as its own peak.
	stream, to := io.Pipe()
	go func() {
		out := bufio.NewWriter(to)
		newMaker().write(out)
		to.CloseWithError(out.Flush())
	}()
	defer func() { _ = stream.Close() }()
	if _, err := b.git.run(ctx, dir, stream, nil, "fast-import", "--quiet"); err != nil {
		return err
	}
	return b.git.quiet(ctx, dir, "repack", "-q", "-a", "-d", "-f", "--depth=50", "--window=10")
}

// maker writes the stream of a repository.
type maker struct{ words []string }

func newMaker() maker {
	var m maker
	r := rand.New(rand.NewPCG(1, 7))
	for range 4000 {
		word := make([]byte, 2+r.IntN(9))
		for i := range word {
			word[i] = "eeeetttaaooiinnsshhrrddlluucmfwypvbgkjqxz"[r.IntN(41)]
		}
		m.words = append(m.words, string(word))
	}
	return m
}

func (m maker) write(out io.Writer) {
	for n := range madeCommits {
		fmt.Fprintf(out, "commit refs/heads/main\ncommitter A <a@example.com> %d +0000\ndata 5\nmade\n\n", 1700000000+n)
		for i := range madeFiles {
			if n > 0 && !edited(i, n) {
				continue
			}
			mode := "100644"
			if i%97 == 0 {
				mode = "100755"
			}
			text := m.text(i, n)
			fmt.Fprintf(out, "M %s inline %s\ndata %d\n%s\n", mode, m.path(i), len(text), text)
		}
	}
}

// edited reports whether commit n, counted from 0, changes file i.
func edited(i, n int) bool {
	return rand.New(rand.NewPCG(uint64(i), uint64(n))).IntN(madeFiles) < madeEdits
}

// path spreads files over folders of about eight, mostly three to five deep, a few a dozen.
func (m maker) path(i int) string {
	folder := i / 8
	parts := []string{m.words[folder%23], m.words[folder%211], m.words[folder%1009]}
	switch {
	case folder%50 == 0:
		for d := range 9 {
			parts = append(parts, m.words[(folder+d)%31])
		}
	case folder%3 == 0:
		parts = append(parts, "internal")
	case folder%7 == 0:
		parts = append(parts, "test", "data")
	}
	return strings.Join(append(parts, fmt.Sprintf("%s_%d.go", m.words[i%len(m.words)], i)), "/")
}

// text is file i as commit n has it: like source code in its words, lines and size, one time in 60 binary.
func (m maker) text(i, n int) []byte {
	r := rand.New(rand.NewPCG(uint64(i), 0))
	size := int(math.Min(math.Exp(8.3+1.1*r.NormFloat64()), 1<<20))
	var out []byte
	if i%60 == 0 {
		out = noise(r, size)
	}
	for len(out) < size {
		out = append(out, m.line(r)...)
	}
	for k := 1; k <= n; k++ {
		if edited(i, k) {
			at := r.IntN(len(out) + 1)
			out = append(out[:at:at], append(m.line(r), out[at:]...)...)
		}
	}
	return out
}

func (m maker) line(r *rand.Rand) []byte {
	out := bytes.Repeat([]byte("\t"), r.IntN(4))
	for range r.IntN(9) {
		// Few words make most of a text.
		word := m.words[int(float64(len(m.words))*math.Pow(r.Float64(), 3))]
		out = append(append(out, word...), " (.,:="[r.IntN(6)])
	}
	return append(out, '\n')
}

func noise(r *rand.Rand, size int) []byte {
	out := make([]byte, size)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}
