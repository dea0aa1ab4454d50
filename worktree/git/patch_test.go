package git

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASmallEditGivesASmallHunk(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	put(t, l.Dir, "src/main.go", strings.Replace(numbered("line", 40), "line 20\n", "line twenty\n", 1))
	put(t, l.Dir, "spa ce/new\n", "x")
	p := collect(t, d, l)
	old, new := blobID([]byte(numbered("line", 40))), git(t, l.Dir, "hash-object", "src/main.go")
	require.Equal(t, `diff --git "a/spa ce/new\n" "b/spa ce/new\n"
new file mode 100644
index 0000000000000000000000000000000000000000..`+blobID([]byte("x")).String()+`
--- /dev/null
+++ "b/spa ce/new\n"`+"\t"+`
@@ -0,0 +1 @@
+x
\ No newline at end of file
diff --git a/src/main.go b/src/main.go
index `+old.String()+`..`+new+` 100644
--- a/src/main.go
+++ b/src/main.go
@@ -18,7 +18,7 @@
 line 17
 line 18
 line 19
-line 20
+line twenty
 line 21
 line 22
 line 23
`, string(p.Bytes))
	require.Equal(t, l.Resolved.Commit, p.Base)
	require.Equal(t, 1, p.Files[1].Insertions)
	require.Equal(t, 1, p.Files[1].Deletions)
	require.Empty(t, p.Warnings)
}

// TestDiffsApply has git apply random edits.
func TestDiffsApply(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	var patch bytes.Buffer
	want := map[string]string{}
	text := func() string {
		var b strings.Builder
		kinds := 1 + rng.IntN(30)
		for range rng.IntN(400) {
			fmt.Fprintf(&b, "%d%s", rng.IntN(kinds), []string{"\n", "\n", "\n", "\r\n", "\n\n"}[rng.IntN(5)])
		}
		if rng.IntN(3) == 0 {
			b.WriteString("end")
		}
		return b.String()
	}
	for i := range 150 {
		name := fmt.Sprintf("f%d", i)
		old := text()
		now := text()
		if i%2 == 0 && len(old) > 10 {
			cut := rng.IntN(len(old))
			now = old[:cut] + now[:rng.IntN(len(now)+1)] + old[cut+rng.IntN(len(old)-cut):]
		}
		put(t, dir, name, old)
		want[name] = now
		if d := diffLines([]byte(old), []byte(now)); old != now {
			fmt.Fprintf(&patch, "diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n", name, name, name, name)
			patch.Write(d.hunks(nil, contextLines))
			added, deleted := d.counts()
			require.LessOrEqual(t, added, len(d.new))
			require.Equal(t, len(d.new)-len(d.old), added-deleted)
		}
	}
	_, err := tryGit(dir, patch.Bytes(), "apply", "--whitespace=nowarn")
	require.NoError(t, err)
	for name, now := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, now, string(got), name)
	}
}

func TestADiffOfVeryDifferentTextsEnds(t *testing.T) {
	var a, b strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&a, "%d\n", i*7919%60_000)
		fmt.Fprintf(&b, "%d\n", i*104_729%60_000)
	}
	d := diffLines([]byte(a.String()), []byte(b.String()))
	added, deleted := d.counts()
	require.Equal(t, added, deleted)
	var kept [2][]string
	for i, l := range d.old {
		if !d.deleted[i] {
			kept[0] = append(kept[0], string(l))
		}
	}
	for i, l := range d.new {
		if !d.added[i] {
			kept[1] = append(kept[1], string(l))
		}
	}
	require.Equal(t, kept[0], kept[1])
}

func TestLiteralsAreReadByGit(t *testing.T) {
	host := repo(t)
	d := driver(t, host)
	l := acquire(t, d, who, "")
	rng := rand.New(rand.NewPCG(7, 8))
	for _, size := range []int{1, 25, 26, 27, 51, 52, 53, 1000, 100_000} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		data[0] = 0
		put(t, l.Dir, fmt.Sprintf("bin%d", size), string(data))
	}
	// One that is streamed.
	big := bytes.Repeat([]byte("0123456789abcdef"), maxTextDiff/16+1)
	put(t, l.Dir, "big", string(big))
	p := collect(t, d, l)
	byIndex, byFiles := applied(t, host, p)
	require.Equal(t, p.Tree, byIndex)
	require.Equal(t, p.Tree, byFiles)
	for _, f := range p.Files {
		assert.True(t, f.Binary, f.Path)
	}
	// And it can be taken back.
	clean := filepath.Join(t.TempDir(), "clean")
	git(t, host, "worktree", "add", "-q", "--detach", clean, p.Base)
	_, err := tryGit(clean, p.Bytes, "apply", "--index")
	require.NoError(t, err)
	_, err = tryGit(clean, p.Bytes, "apply", "--index", "-R")
	require.NoError(t, err)
	require.Equal(t, l.Resolved.Tree, git(t, clean, "write-tree"))
}

func TestLineEndsAreGits(t *testing.T) {
	contents := []string{
		"", "lf\nlf\n", "crlf\r\ncrlf\r\n", "mixed\r\nlf\n", "lone\rcr\n", "bin\x00\r\n\n", "no end", "\r\n", "\n", "\r", "ctrl-z\r\n\x1a", "\x01\x02\x03\n", strings.Repeat("text ", 200) + "\x01\n",
	}
	attributes := []string{
		"", "* text", "* text=auto", "* -text", "* text eol=crlf", "* text eol=lf", "* text=auto eol=crlf", "* text=auto eol=lf", "* eol=crlf", "* eol=lf", "* crlf", "* -crlf", "* crlf=input",
		"* text=input eol=crlf", "* binary", "* text=auto\n*.5 -text\nsub/* eol=crlf",
	}
	configs := [][2]string{{"core.autocrlf", "false"}, {"core.autocrlf", "true"}, {"core.autocrlf", "input"}, {"core.eol", "crlf"}}
	for _, conf := range configs {
		t.Run(conf[0]+"="+conf[1], func(t *testing.T) {
			t.Parallel()
			host := filepath.Join(t.TempDir(), "host")
			git(t, t.TempDir(), "init", "-q", host)
			for a, attr := range attributes {
				dir := filepath.Join(host, fmt.Sprintf("d%d", a))
				for i, c := range contents {
					put(t, dir, fmt.Sprintf("f.%d", i), c)
				}
				put(t, dir, "sub/f", "sub\nfolder\n")
				if attr != "" {
					put(t, dir, ".gitattributes", attr+"\n")
				}
			}
			// As they are: what is stored need not be what the attributes ask for.
			put(t, host, ".git/info/attributes", "* -text\n")
			git(t, host, "add", "-A")
			git(t, host, "commit", "-qm", "base")
			require.NoError(t, os.Remove(filepath.Join(host, ".git/info/attributes")))
			git(t, host, "config", conf[0], conf[1])
			ref := filepath.Join(t.TempDir(), "ref")
			git(t, host, "worktree", "add", "-q", "--detach", ref)
			d := driver(t, host)
			l := acquire(t, d, who, "")
			same(t, fingerprint(t, ref, ".git")[1:], fingerprint(t, l.Dir, ".git")[1:])
			for a := range attributes {
				for i, c := range contents {
					for _, dir := range []string{ref, l.Dir} {
						put(t, dir, fmt.Sprintf("d%d/f.%d", a, i), contents[(i+3)%len(contents)]+"more\r\n")
						put(t, dir, fmt.Sprintf("d%d/new.%d", a, i), c)
					}
				}
			}
			git(t, ref, "-c", "core.safecrlf=false", "add", "-A")
			p := collect(t, d, l)
			require.Equal(t, git(t, ref, "write-tree"), p.Tree)
			clean := filepath.Join(t.TempDir(), "clean")
			git(t, host, "worktree", "add", "-q", "--detach", clean, p.Base)
			// By the index alone, because files that are not stored as the attributes ask look edited at once.
			_, err := tryGit(clean, p.Bytes, "apply", "--cached", "--whitespace=nowarn")
			require.NoError(t, err)
			require.Equal(t, p.Tree, git(t, clean, "write-tree"))
		})
	}
}

func TestExecutableBitsMeanNothingWhereTheyDoNot(t *testing.T) {
	host := repo(t)
	git(t, host, "config", "core.fileMode", "false")
	d := driver(t, host)
	l := acquire(t, d, who, "")
	require.NoError(t, os.Chmod(filepath.Join(l.Dir, "run.sh"), 0o644))
	put(t, l.Dir, "run.sh", "#!/bin/sh\n")
	put(t, l.Dir, "new.sh", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(filepath.Join(l.Dir, "new.sh"), 0o755))
	git(t, l.Dir, "add", "-A")
	require.Equal(t, git(t, l.Dir, "write-tree"), collect(t, d, l).Tree)
}

func TestTheIndexIsReadByAnotherReader(t *testing.T) {
	host := repo(t)
	put(t, host, strings.Repeat("long/", 750)+"name", "x\n")
	git(t, host, "add", "-A")
	git(t, host, "commit", "-qm", "long")
	d := driver(t, host)
	l := acquire(t, d, who, "")
	f, err := os.Open(filepath.Join(host, ".git", "worktrees", l.ID, "index"))
	require.NoError(t, err)
	defer f.Close()
	var idx index.Index
	require.NoError(t, index.NewDecoder(f).Decode(&idx))
	frozen, err := d.unfreeze(l.ID, mustLoad(t, d, l.ID))
	require.NoError(t, err)
	defer frozen.objects.close()
	require.Len(t, idx.Entries, len(frozen.entries))
	for i, e := range frozen.entries {
		require.Equal(t, idx.Entries[i].Name, e.path)
		require.Equal(t, idx.Entries[i].Hash, e.id)
		require.Equal(t, idx.Entries[i].ModifiedAt.UnixNano(), e.stat.mtime)
	}
	require.NotEmpty(t, idx.Cache.Entries)
	require.Equal(t, l.Resolved.Tree, treeID(frozen.entries).String())
	// git takes the recorded trees as they are.
	require.Equal(t, l.Resolved.Tree, git(t, l.Dir, "write-tree"))

	for _, bad := range []string{"", "DIRC", strings.Repeat("x", 100)} {
		_, err := decodeIndex([]byte(bad))
		require.Error(t, err)
	}
}
