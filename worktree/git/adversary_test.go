package git

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git/pack"
)

// TestShortNamesAreGits has git say which names a link may have.
func TestShortNamesAreGits(t *testing.T) {
	host := repo(t)
	blob := git(t, host, "rev-parse", "HEAD:README.md")
	for _, name := range []string{
		"gitmod~1", "gitmod~2", "GITMOD~4", "gitmod~5", "gitmod~12", "gitmod~1.", "gitmod~1 .", "gitmod~1:x", "gitmod~", "gitmod~0",
		"gi7eba~1", "gi7eba~9", "gi7eba~0", "Gi7eba~3", "gi7eb~12", "gi7~1234", "g~123456", "~1234567", "gi7eba~1x", "gi7eba~10", "gi7eb~1",
		"gi7eba~1. ", `a\gitmod~2`, `gi7eba~1\b`, "gitmodu~1", ".gitmodules", ".GITMODULES ", ".gitmodules:x", "gitmodules",
	} {
		for _, mode := range []string{"120000", "100644"} {
			_, err := tryGit(host, nil, "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true",
				"update-index", "--add", "--cacheinfo", mode+","+blob+","+name)
			assert.Equal(t, err == nil, validName(name, mode == "120000"), "%q as %s", name, mode)
		}
	}
}

// TestNamesAreGits has git say which paths may be made of the parts of the names that it looks for.
func TestNamesAreGits(t *testing.T) {
	host := repo(t)
	blob := git(t, host, "rev-parse", "HEAD:README.md")
	parts := []string{
		".git", ".GIT", "git~1", ".gitmodules", ".GitModules", "modules", "gitmod~1", "gitmod~4", "gi7eba~1", "gi~12345", ".gitmodule\u017f",
		"\xff", "\u200c", "\ufffe", "\uffff", "\ufffd", "\xed\xa0\x80", "\xc0\xae", "\ufeff", ".", " ", ":", `\`, "/", "x", "~", "1",
	}
	rng := rand.New(rand.NewPCG(3, 1))
	paths := map[string]bool{"a/.gitmodules/b": true, ".gitmodules:x/y": true, `gitmod~2:x\y`: true, ".git\xff": true, ".gitmodules/x/y": true}
	many := 60
	if os.Getenv("ASSENT_LONG") == "1" {
		many = 2000
	}
	for len(paths) < many {
		var path string
		for range 1 + rng.IntN(5) {
			path += parts[rng.IntN(len(parts))]
		}
		// git looks behind each backslash but one that begins a name.
		paths[path] = !strings.Contains("/"+path, `/\`)
	}
	for path, judged := range paths {
		if !judged {
			continue
		}
		dir, name := filepath.Split(path)
		dir = strings.TrimSuffix(dir, "/")
		folders := name == path || !slices.ContainsFunc(strings.Split(dir, "/"), func(part string) bool { return !validName(part, false) })
		for _, mode := range []string{"120000", "100644"} {
			link := mode == "120000"
			_, err := tryGit(host, nil, "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true",
				"update-index", "--add", "--replace", "--cacheinfo", mode+","+blob+","+path)
			assert.Equal(t, err == nil, folders && validName(name, link) && (!link || validLink(dir)), "%q as %s", path, mode)
		}
	}
}

// TestAPatternOfManyStarsTakesNoMemory would need one step for each of them at every folder.
func TestAPatternOfManyStarsTakesNoMemory(t *testing.T) {
	long := strings.Repeat("**/", 200_000)
	deep := strings.Repeat("a/", 300)
	w := &wild{pattern: long + "x", text: deep + "b", paths: true}
	assert.Equal(t, wildNone, min(w.match(0, 0), wildNone))
	assert.Less(t, len(w.known), 10_000)
	assert.True(t, wildmatch(long+"b", deep+"b", true))
	assert.True(t, wildmatch(long+"b", "b", true))
	assert.True(t, wildmatch(strings.Repeat("***/", 9)+"**", "b", true))
}

// TestATreeWithoutEndIsRefused resolves a tree of a dozen objects that names more files than any disk holds.
func TestATreeWithoutEndIsRefused(t *testing.T) {
	host := repo(t)
	id := git(t, host, "rev-parse", "HEAD:README.md")
	mode := "100644"
	for range 9 {
		var tree strings.Builder
		for i := range 20 {
			fmt.Fprintf(&tree, "%s %c\x00%s", mode, 'a'+i, raw(t, id))
		}
		out, err := tryGit(host, []byte(tree.String()), "hash-object", "-t", "tree", "-w", "--stdin")
		require.NoError(t, err)
		id, mode = out[:40], "40000"
	}
	git(t, host, "update-ref", "HEAD", git(t, host, "commit-tree", "-m", "bomb", id))
	d := driver(t, host)
	at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
	require.NoError(t, err)
	h, err := d.openHost("r")
	require.NoError(t, err)
	defer h.close()
	p := &planner{ctx: ctx, host: h, attrs: &attributes{}, plan: &plan{}, most: 10_000}
	_, err = p.walk("", "", plumbing.NewHash(at.Tree), 0)
	require.ErrorContains(t, err, "more than 10000")
	require.LessOrEqual(t, len(p.entries)+len(p.folders), 10_100)
}

// TestAFolderThatBecomesAFifo opens what was a folder a moment ago: whoever opens it as anything waits for ever.
func TestAFolderThatBecomesAFifo(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, syscall.Mkfifo(filepath.Join(root.Name(), "was-a-folder"), 0o600))
	s := newStack(mustOpen(t, root))
	defer s.close()
	for name, open := range map[string]func() error{
		"scan":  func() error { _, err := openFolder(root, "was-a-folder"); return err },
		"patch": func() error { _, err := s.enter("was-a-folder/sub"); return err },
		"tree":  func() error { _, err := openTopFolder(filepath.Join(root.Name(), "was-a-folder")); return err },
		"flush": func() error { return syncTree(filepath.Join(root.Name(), "was-a-folder")) },
	} {
		done := make(chan error, 1)
		go func() { done <- open() }()
		select {
		case err := <-done:
			assert.ErrorIs(t, changing(err), errChanging, name)
		case <-time.After(5 * time.Minute):
			t.Fatalf("%s waits", name)
		}
	}
}

func mustOpen(t *testing.T, root *os.Root) *os.Root {
	r, err := root.OpenRoot(".")
	require.NoError(t, err)
	return r
}

// TestCollectEndsWhateverTheHostSays has an agent lead the survey of the host all over the machine.
func TestCollectEndsWhateverTheHostSays(t *testing.T) {
	traps := map[string]func(t *testing.T, dotGit string){
		"hooks are the whole machine": func(t *testing.T, dotGit string) {
			put(t, dotGit, "config", "[core]\n\thooksPath = /usr\n\thooksPath = /\n\thooksPath = /usr\n")
		},
		"a hooks folder that is a link to it": func(t *testing.T, dotGit string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dotGit, "hooks")))
			require.NoError(t, os.Symlink("/usr", filepath.Join(dotGit, "hooks")))
		},
		"includes that include each other": func(t *testing.T, dotGit string) {
			put(t, dotGit, "config", "[include]\n"+strings.Repeat("\tpath = config\n", 40))
		},
		"modules in a circle": func(t *testing.T, dotGit string) {
			for i := range 30 {
				dir := filepath.Join(dotGit, "modules")
				require.NoError(t, os.MkdirAll(dir, 0o777))
				require.NoError(t, os.Symlink(".", filepath.Join(dir, fmt.Sprint(i))))
			}
		},
		"a configuration of settings only": func(t *testing.T, dotGit string) {
			put(t, dotGit, "config", "[a]\n"+strings.Repeat("b\n", 3_000_000))
		},
		"refs of a terabyte": func(t *testing.T, dotGit string) {
			for i := range 40 {
				name := filepath.Join(dotGit, "refs", "heads", fmt.Sprint(i))
				require.NoError(t, os.WriteFile(name, nil, 0o666))
				require.NoError(t, os.Truncate(name, 250<<20))
			}
		},
	}
	for name, trap := range traps {
		t.Run(name, func(t *testing.T) {
			host := repo(t)
			d := driver(t, host)
			l := acquire(t, d, who, "")
			trap(t, filepath.Join(host, ".git"))
			put(t, l.Dir, "work.txt", "w\n")
			within, cancel := context.WithTimeout(ctx, 5*time.Minute)
			defer cancel()
			done := make(chan worktree.Patch, 1)
			go func() {
				p, err := d.Collect(within, l)
				assert.NoError(t, err)
				done <- p
			}()
			select {
			case p := <-done:
				assert.Equal(t, "a work.txt\n", status(p))
				assert.NotEmpty(t, p.HostChanges)
			case <-time.After(5 * time.Minute):
				t.Fatal("collect does not end")
			}
		})
	}
}

// TestATreeDeeperThanFilesMayBeOpen is deleted with a few descriptors.
func TestATreeDeeperThanFilesMayBeOpen(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	dig(t, l.Dir, 1500, "d")
	dig(t, filepath.Join(l.Dir, "src"), 500, "e")
	require.NoError(t, os.Symlink(host, filepath.Join(l.Dir, "src", "to-host")))
	var most syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most))
	few := most
	few.Cur = 1000
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &most)) }()
	require.NoError(t, d.Dispose(ctx, l, true))
	require.NoError(t, d.Close())
	left, err := os.ReadDir(filepath.Join(d.root, "trash"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.Equal(t, "", git(t, host, "status", "--porcelain"))
}

// TestASwapperMisleadsNobody has another process put links to a stranger, FIFOs and files in the place of folders and
// back while a tree is collected and removed.
func TestASwapperMisleadsNobody(t *testing.T) {
	stranger := t.TempDir()
	put(t, stranger, "sub/leaf.txt", "secret\n")
	d := driver(t, repo(t))
	for round := range 3 {
		l := acquire(t, d, worktree.Identity{Namespace: "n", WorkflowID: fmt.Sprint(round)}, "")
		for i := range 40 {
			put(t, l.Dir, fmt.Sprintf("src/deep/f%d", i), "x\n")
		}
		stop := make(chan struct{})
		var swappers sync.WaitGroup
		for _, name := range []string{"src", "src/deep"} {
			swappers.Go(func() { swap(filepath.Join(l.Dir, name), stranger, stop) })
		}
		for range 15 {
			p, err := d.Collect(ctx, l)
			var changing *worktree.ChangingError
			if err != nil {
				assert.ErrorAs(t, err, &changing)
			}
			assert.NotContains(t, string(p.Bytes), "secret")
		}
		require.NoError(t, d.Dispose(ctx, l, true))
		close(stop)
		swappers.Wait()
	}
	require.NoError(t, d.Close())
	requireFile(t, stranger, "sub/leaf.txt", "secret\n")
}

func swap(path, stranger string, stop chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		if os.Rename(path, path+".away") != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		switch n % 4 {
		case 0:
			_ = os.Symlink(stranger, path)
		case 1:
			_ = syscall.Mkfifo(path, 0o600)
		case 2:
			_ = os.Symlink("..", path)
		case 3:
			_ = os.WriteFile(path, nil, 0o600)
		}
		_ = os.Remove(path)
		_ = os.Rename(path+".away", path)
	}
}

// TestRulesWithoutEndAreRefused has a repository whose ignore file is small only while it is compressed.
func TestRulesWithoutEndAreRefused(t *testing.T) {
	for name, with := range map[string]func(*Config){".gitignore": func(*Config) {}, "src/.gitattributes": withGit(t)} {
		host := repo(t)
		blob, err := tryGit(host, []byte(strings.Repeat("a\n", maxRules/2+1)), "hash-object", "-w", "--stdin")
		require.NoError(t, err)
		git(t, host, "update-index", "--add", "--cacheinfo", "100644,"+blob[:40]+","+name)
		git(t, host, "update-ref", "HEAD", git(t, host, "commit-tree", "-m", "rules", git(t, host, "write-tree")))
		d := driver(t, host, with)
		d.always = d.git != nil
		at, err := d.Resolve(ctx, worktree.Isolation{Repo: "r"})
		require.NoError(t, err)
		_, err = d.Acquire(ctx, who, at)
		require.ErrorContains(t, err, "ignore and attribute files of more than")
		requireOnlyStateAfterClose(t, d)
	}
	host := repo(t)
	put(t, host, ".git/info/exclude", strings.Repeat("a\n", maxRules/2+1))
	_, err := driver(t, host).Resolve(ctx, worktree.Isolation{Repo: "r"})
	require.ErrorContains(t, err, "rules cannot be read")
}

// TestMorePacksThanFilesMayBeOpen fills the object folder of the host with packs.
func TestMorePacksThanFilesMayBeOpen(t *testing.T) {
	host := repo(t)
	git(t, host, "gc", "-q")
	dir := filepath.Join(host, ".git", "objects", "pack")
	for _, ext := range []string{"pack", "idx"} {
		names, err := filepath.Glob(filepath.Join(dir, "*."+ext))
		require.NoError(t, err)
		require.Len(t, names, 1)
		for i := range pack.MaxPacks + 5 {
			require.NoError(t, os.Link(names[0], filepath.Join(dir, fmt.Sprintf("a-%d.%s", i, ext))))
		}
	}
	d := driver(t, host)
	require.Equal(t, "", git(t, acquire(t, d, who, "").Dir, "status", "--porcelain"))
	_, err := d.Resolve(ctx, worktree.Isolation{Repo: "r", Ref: strings.Repeat("12345678", 5)})
	var needs *worktree.NeedsGitError
	require.ErrorAs(t, err, &needs)
	require.ErrorContains(t, err, "more than 1000 packs")
}

// TestARecordThatCannotBeReadHidesNoOther has a record that is no file beside a good one.
func TestARecordThatCannotBeReadHidesNoOther(t *testing.T) {
	d := driver(t, repo(t))
	bad, good := acquire(t, d, agents(2)[0], ""), acquire(t, d, agents(2)[1], "")
	file := filepath.Join(d.stateDir(bad.ID), "record")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Mkdir(file, 0o700))
	all, err := d.Inventory(ctx)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, Unreadable, held(t, d, bad.ID).State)
	kept, err := d.Retain(ctx, good, "it failed")
	require.NoError(t, err)
	require.True(t, kept)
	require.ErrorContains(t, d.Dispose(ctx, bad, true), "is damaged")
	require.DirExists(t, bad.Dir)
}

func TestARepositoryThatWasMovedIsNamed(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	put(t, l.Dir, "README.md", "changed\n")
	require.NoError(t, os.Rename(host, host+".moved"))
	_, err := d.Collect(ctx, l)
	require.ErrorContains(t, err, "is not there any more")
	require.NoError(t, os.Rename(host+".moved", host))
	require.Equal(t, "m README.md\n", status(collect(t, d, l)))
}
