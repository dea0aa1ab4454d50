package git

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// chaos makes random messes. Every step is a word of its log.
type chaos struct {
	t   *testing.T
	rng *rand.Rand
	dir string
	log []string
}

func pick[T any](c *chaos, list ...T) T { return list[c.rng.IntN(len(list))] }

// path returns a path that exists, or one that may not.
func (c *chaos) path() string {
	var all []string
	_ = filepath.WalkDir(c.dir, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(c.dir, path)
		if err != nil || rel == ".git" {
			return nil
		}
		if strings.HasPrefix(rel, ".git"+string(filepath.Separator)) {
			return fs.SkipDir
		}
		if rel != "." {
			all = append(all, rel)
		}
		return nil
	})
	if len(all) > 0 && c.rng.IntN(3) > 0 {
		return pick(c, all...)
	}
	name := pick(c, "a", "b.txt", "c d", "e\tf", "g\nh", `i"j`, `k\l`, "\xff\xfe", "日本", "x.log", "-n", "README.MD", ".hidden", "'", "%s", "a\rb")
	for c.rng.IntN(3) == 0 {
		name = pick(c, "dir", "src", "build", "s p", "\u00fc") + "/" + name
	}
	return name
}

// content returns bytes of every kind, half of the time an edit of what is at path.
func (c *chaos) content(path string) []byte {
	old, err := os.ReadFile(filepath.Join(c.dir, path))
	if err == nil && len(old) > 4 && c.rng.IntN(2) == 0 {
		at := c.rng.IntN(len(old))
		return append(append(old[:at:at], pick(c, "X", "new\n", "\r\n", "\x00", "\xe9", "")...), old[at+c.rng.IntN(len(old)-at):]...)
	}
	var b strings.Builder
	for range c.rng.IntN(60) {
		b.WriteString(pick(c, "line\n", "other\n", "\n", "\r\n", "crlf\r\n", "\tindent\n", "trail \n", "caf\xe9\n", "-minus\n", "+plus\n", "@@ -1 +1 @@\n", "\r"))
	}
	switch c.rng.IntN(6) {
	case 0:
		b.WriteString("\x00\x01\xff")
	case 1:
		b.WriteString("no end")
	}
	return []byte(b.String())
}

// step does one thing. What cannot be done where it falls is left undone.
func (c *chaos) step() {
	path := c.path()
	full := filepath.Join(c.dir, path)
	do := func(what string, err error) {
		c.log = append(c.log, fmt.Sprintf("%s %q: %v", what, path, err))
	}
	switch c.rng.IntN(14) {
	case 0, 1, 2, 3:
		_ = os.MkdirAll(filepath.Dir(full), 0o777)
		do("write", os.WriteFile(full, c.content(path), 0o666))
	case 4:
		do("remove", os.RemoveAll(full))
	case 5:
		do("chmod", os.Chmod(full, pick[fs.FileMode](c, 0o755, 0o644, 0o700, 0o4755)))
	case 6:
		_ = os.RemoveAll(full)
		do("link", os.Symlink(pick(c, "README.md", "..", "/etc/passwd", "\xff", "a b", "nowhere/x"), full))
	case 7:
		to := filepath.Join(c.dir, c.path())
		do("rename to "+to, os.Rename(full, to))
	case 8:
		do("hard link", os.Link(full, filepath.Join(c.dir, c.path())))
	case 9:
		_ = os.RemoveAll(full)
		do("folder", os.MkdirAll(full, 0o777))
	case 10, 11:
		args := pick(c, []string{"add", "-A"}, []string{"commit", "-qam", "c"}, []string{"stash", "-q"}, []string{"stash", "pop", "-q"}, []string{"reset", "-q", "--hard"},
			[]string{"reset", "-q", "HEAD~1"}, []string{"checkout", "-q", "-f", "HEAD~1"}, []string{"checkout", "-q", "-B", "b"}, []string{"rm", "-rqf", "--cached", "."},
			[]string{"update-index", "--assume-unchanged", "README.md"}, []string{"clean", "-qfd"}, []string{"gc", "-q", "--prune=now"}, []string{"read-tree", "HEAD"})
		_, err := tryGit(c.dir, nil, args...)
		do("git "+strings.Join(args, " "), err)
	default:
		if fi, err := os.Lstat(full); err == nil && fi.Mode().IsRegular() {
			do("truncate", os.Truncate(full, int64(c.rng.IntN(20))))
		}
	}
}

// TestRandomMesses holds random sequences of messes to what TestCollectedPatchGivesTheRecordedTree holds the listed
// ones to. ASSENT_LONG=1 does many more; a seed in the log can be run again by TestRandomMesses/<seed>.
func TestRandomMesses(t *testing.T) {
	seeds := uint64(6)
	if os.Getenv("ASSENT_LONG") == "1" {
		seeds = 400
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			host := repo(t)
			d := driver(t, host)
			l := acquire(t, d, who, "")
			c := &chaos{t: t, rng: rand.New(rand.NewPCG(seed, 7)), dir: l.Dir}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("seed %d:\n%s", seed, strings.Join(c.log, "\n"))
				}
			})
			for range 5 + c.rng.IntN(40) {
				c.step()
			}
			p := collect(t, d, l)
			rules := false
			for _, f := range p.Files {
				rules = rules || filepath.Base(f.Path) == ".gitattributes"
			}
			referee(t, host, l, p, !rules)
			require.NoError(t, d.Dispose(ctx, l, false))
		})
	}
}
