//go:build unix

package toolbox_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
)

// tree makes a directory with files; a name that ends in / is a directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

func content(t *testing.T, elems ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elems...))
	require.NoError(t, err)
	return string(data)
}

func TestPathsAreRefusedByName(t *testing.T) {
	dir := tree(t, map[string]string{"a": "x"})
	defs := all(t)
	for path, why := range map[string]string{
		"/etc/passwd": "absolute", `C:\x`: "absolute", `\\host\share`: "absolute", "c:x": "absolute",
		"..": `".."`, "../a": `".."`, "b/../../a": `".."`, "b/..": `".."`, `..\a`: `".."`,
		"a\x00b": "not text", ".": "itself", "": "is empty",
	} {
		for name, in := range map[string]args{
			"read_file": {"path": path}, "write_file": {"path": path, "content": "y"},
			"edit_file": {"path": path, "old": "x", "new": "y"}, "delete_file": {"path": path},
		} {
			require.True(t, fails(t, defs[name], dir, in, why), "%s %q", name, path)
		}
		if path != "" && path != "." {
			require.True(t, fails(t, defs["list_files"], dir, args{"dir": path}, why))
			require.True(t, fails(t, defs["search_files"], dir, args{"dir": path, "query": "x"}, why))
		}
	}
	require.Equal(t, "x", content(t, dir, "a"))
}

func TestLinksThatLeaveTheDirectoryAreRefused(t *testing.T) {
	outside := tree(t, map[string]string{"secret": "s3cret", "sub/secret": "s3cret"})
	dir := tree(t, map[string]string{"in/a": "fine"})
	for name, target := range map[string]string{
		"abs": filepath.Join(outside, "secret"), "rel": "../" + filepath.Base(outside) + "/secret",
		"absdir": outside, "in/updir": "../../" + filepath.Base(outside), "chain": "abs", "dangling": "/nowhere/at/all",
		"loop": "loop", "selfabs": filepath.Join(dir, "in", "a"),
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	defs := all(t)
	for _, path := range []string{"abs", "rel", "chain", "absdir/secret", "in/updir/secret", "absdir/new/file", "dangling", "loop", "selfabs"} {
		for name, in := range map[string]args{
			"read_file": {"path": path}, "write_file": {"path": path, "content": "y"}, "edit_file": {"path": path, "old": "s3cret", "new": "y"},
		} {
			r := invoke(t, defs[name], dir, in)
			require.Equal(t, tool.ToolError, r.Code, "%s %q", name, path)
			require.NotContains(t, r.Failure.Message, "s3cret")
			require.NotContains(t, r.Failure.Message, outside, "the host's paths are no business of the model")
		}
	}
	for _, path := range []string{"absdir", "in/updir"} {
		require.Equal(t, tool.ToolError, invoke(t, defs["list_files"], dir, args{"dir": path}).Code)
		require.Equal(t, tool.ToolError, invoke(t, defs["search_files"], dir, args{"dir": path, "query": "s3"}).Code)
	}
	require.Empty(t, ok[toolbox.Matches](t, defs["search_files"], dir, args{"query": "s3cret"}).Matches)
	require.Equal(t, tool.ToolError, invoke(t, defs["delete_file"], dir, args{"path": "absdir/secret"}).Code)

	// Deleting a link deletes the link.
	require.Equal(t, toolbox.Deleted{Path: "abs", Kind: "symlink"}, ok[toolbox.Deleted](t, defs["delete_file"], dir, args{"path": "abs"}))
	require.Equal(t, "s3cret", content(t, outside, "secret"))
	require.Equal(t, "s3cret", content(t, outside, "sub", "secret"))
	require.NoFileExists(t, filepath.Join(outside, "new", "file"))
}

func TestLinksInsideWork(t *testing.T) {
	dir := tree(t, map[string]string{"real/a": "one\n"})
	require.NoError(t, os.Symlink("real", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("../real/a", filepath.Join(dir, "real", "b")))
	defs := all(t)
	require.Equal(t, "one\n", ok[toolbox.Page](t, defs["read_file"], dir, args{"path": "link/b"}).Content)
	ok[toolbox.Written](t, defs["write_file"], dir, args{"path": "link/b", "content": "two\n"})
	require.Equal(t, "two\n", content(t, dir, "real", "a"))
	require.Equal(t, []toolbox.Match{{Path: "link/a", Line: 1, Text: "two"}},
		ok[toolbox.Matches](t, defs["search_files"], dir, args{"query": "tw", "dir": "link"}).Matches)
	list := ok[toolbox.Listing](t, defs["list_files"], dir, args{"dir": "link"})
	require.Equal(t, "../real/a", list.Entries[1].Target)
}

func TestGitIsNotWritten(t *testing.T) {
	dir := tree(t, map[string]string{".git/config": "keep", "sub/.git": "gitdir: x", "ok/.gitignore": "keep"})
	require.NoError(t, os.Symlink(".git", filepath.Join(dir, "disguise")))
	require.NoError(t, os.Symlink("disguise/config", filepath.Join(dir, "cfg")))
	defs := all(t)
	for _, path := range []string{
		".git/config", ".GIT/config", ".git", "sub/.git", ".git./config", ".git /x", "git~1/config", "a/GIT~2/x", ".git::$INDEX_ALLOCATION/x",
		".g\u200cit/x", ".git\ufeff/hooks/pre-commit", `.git\config`, "disguise/config", "disguise/hooks/new", "cfg", "./.git/x", "nested/.Git/hooks/x",
	} {
		fails(t, defs["write_file"], dir, args{"path": path, "content": "evil"}, ".git")
		fails(t, defs["edit_file"], dir, args{"path": path, "old": "keep", "new": "evil"}, ".git")
		if path != "cfg" { // the link itself may go
			fails(t, defs["delete_file"], dir, args{"path": path}, ".git")
		}
	}
	require.Equal(t, "keep", content(t, dir, ".git", "config"))
	require.Equal(t, "keep", ok[toolbox.Page](t, defs["read_file"], dir, args{"path": ".git/config"}).Content)
	ok[toolbox.Written](t, defs["write_file"], dir, args{"path": "ok/.gitignore", "content": "x"})
	ok[toolbox.Written](t, defs["write_file"], dir, args{"path": ".github/workflows/ci.yaml", "content": "x"})
}

func TestSpecialFilesAreRefused(t *testing.T) {
	dir := tree(t, map[string]string{"d/": ""})
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	defs := all(t)
	fails(t, defs["read_file"], dir, args{"path": "pipe"}, "not a regular file")
	fails(t, defs["write_file"], dir, args{"path": "pipe", "content": "x"}, "not a regular file")
	fails(t, defs["edit_file"], dir, args{"path": "pipe", "old": "a", "new": "b"}, "not a regular file")
	fails(t, defs["delete_file"], dir, args{"path": "pipe"}, "not a regular file")
	fails(t, defs["read_file"], dir, args{"path": "d"}, "is a directory")
	fails(t, defs["write_file"], dir, args{"path": "d", "content": "x"}, "is a directory")
	fails(t, defs["delete_file"], dir, args{"path": "d"}, "is a directory")
	fails(t, defs["read_file"], dir, args{"path": "gone"}, "no such file")
	require.Equal(t, "other", ok[toolbox.Listing](t, defs["list_files"], dir, args{}).Entries[1].Kind)
}

func TestListing(t *testing.T) {
	dir := tree(t, map[string]string{"b": "22", "a/": "", "A": "", "c\xff": "1"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "b"), 0o755))
	size := func(n int64) *int64 { return &n }
	got := ok[toolbox.Listing](t, all(t)["list_files"], dir, args{})
	require.Equal(t, toolbox.Listing{Dir: ".", Entries: []toolbox.Entry{
		{Name: "A", Kind: "file", Size: size(0)},
		{Name: "a", Kind: "dir"},
		{Name: "b", Kind: "file", Size: size(2), Executable: true},
		{Name: "c\uFFFD", RawName: base64.StdEncoding.EncodeToString([]byte("c\xff")), Kind: "file", Size: size(1)},
	}}, got)
	require.Equal(t, []toolbox.Entry{}, ok[toolbox.Listing](t, all(t)["list_files"], dir, args{"dir": "a"}).Entries)
	fails(t, all(t)["list_files"], dir, args{"dir": "b"}, "is not a directory")
	fails(t, all(t)["list_files"], dir, args{"dir": "gone"}, "no such file")
	require.True(t, fails(t, all(t)["list_files"], dir, args{"cursor": "!"}, "cursor"))
}

func TestListingHasPages(t *testing.T) {
	files := map[string]string{}
	for i := range 1201 {
		files[fmt.Sprintf("f%04d", i)] = ""
	}
	dir := tree(t, files)
	var names []string
	cursor, pages := "", 0
	for {
		page := ok[toolbox.Listing](t, all(t)["list_files"], dir, args{"cursor": cursor})
		for _, e := range page.Entries {
			names = append(names, e.Name)
		}
		pages++
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.Equal(t, 3, pages)
	require.Len(t, names, 1201)
	require.IsIncreasing(t, names)
}

func TestReadingLines(t *testing.T) {
	dir := tree(t, map[string]string{"f": "one\r\ntwo\nthree", "empty": ""})
	read := all(t)["read_file"]
	next := func(n int64) *int64 { return &n }
	page := toolbox.Page{Path: "f", Size: 14, Unit: "lines", Offset: 1, Encoding: "utf-8"}

	whole := page
	whole.Content = "one\r\ntwo\nthree"
	require.Equal(t, whole, ok[toolbox.Page](t, read, dir, args{"path": "f"}))

	first := page
	first.Content, first.Next = "one\r\n", next(2)
	require.Equal(t, first, ok[toolbox.Page](t, read, dir, args{"path": "f", "limit": 1}))

	last := page
	last.Content, last.Offset = "three", 3
	require.Equal(t, last, ok[toolbox.Page](t, read, dir, args{"path": "f", "offset": 3, "limit": 1 << 40}))

	require.True(t, fails(t, read, dir, args{"path": "f", "offset": 4}, "behind the end of \"f\", which has 3 lines"))
	require.Equal(t, "", ok[toolbox.Page](t, read, dir, args{"path": "empty"}).Content)
	require.Equal(t, tool.InvalidArguments, invoke(t, read, dir, args{"path": "f", "offset": -1}).Code)
}

func TestReadingIsBoundedAndLosesNothing(t *testing.T) {
	var text strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&text, "line %d äöü %s\n", i, strings.Repeat("x", i%97))
	}
	dir := tree(t, map[string]string{"f": text.String()})
	var got strings.Builder
	offset := int64(0)
	for {
		page := ok[toolbox.Page](t, all(t)["read_file"], dir, args{"path": "f", "offset": offset, "limit": 5000})
		require.LessOrEqual(t, len(page.Content), 128<<10)
		require.Zero(t, page.CutLine)
		got.WriteString(page.Content)
		if page.Next == nil {
			break
		}
		offset = *page.Next
	}
	require.Equal(t, text.String(), got.String())
}

func TestALineLongerThanAPageIsCutAndSaysSo(t *testing.T) {
	long := strings.Repeat("ä", 100<<10) + "\n"
	dir := tree(t, map[string]string{"f": "a\n" + long + "b\n"})
	read := all(t)["read_file"]
	page := ok[toolbox.Page](t, read, dir, args{"path": "f"})
	require.Equal(t, "a\n", page.Content)
	require.EqualValues(t, 2, *page.Next)
	page = ok[toolbox.Page](t, read, dir, args{"path": "f", "offset": 2})
	require.True(t, strings.HasPrefix(long, page.Content))
	require.EqualValues(t, len(long)-len(page.Content), page.CutLine)
	require.EqualValues(t, 3, *page.Next)
}

func TestBinaryFilesAreReadInBytes(t *testing.T) {
	data := strings.Repeat("\x00\xff\n", 100<<10)
	dir := tree(t, map[string]string{"bin": data, "late": strings.Repeat("text\n", 4000) + "\xff\n"})
	read := all(t)["read_file"]
	var got []byte
	offset := int64(0)
	for {
		page := ok[toolbox.Page](t, read, dir, args{"path": "bin", "offset": offset})
		require.Equal(t, "base64", page.Encoding)
		require.Equal(t, "bytes", page.Unit)
		part, err := base64.StdEncoding.DecodeString(page.Content)
		require.NoError(t, err)
		got = append(got, part...)
		if page.Next == nil {
			break
		}
		offset = *page.Next
	}
	require.Equal(t, data, string(got))
	require.True(t, fails(t, read, dir, args{"path": "bin", "offset": 1 << 40}, "behind the end"))

	// A text that turns out to hold other bytes later keeps its lines, and the page its bytes.
	page := ok[toolbox.Page](t, read, dir, args{"path": "late", "offset": 4000})
	require.Equal(t, "lines", page.Unit)
	require.Equal(t, "base64", page.Encoding)
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte("text\n\xff\n")), page.Content)
}

func TestSearching(t *testing.T) {
	dir := tree(t, map[string]string{
		"b.go": "x\nfunc A()\n", "a/z.go": "func B()\r\n", ".git/config": "func C()", "bin": "func D()\x00", "long": strings.Repeat("ä", 5000) + "func E()" + strings.Repeat("ö", 5000),
	})
	search := all(t)["search_files"]
	got := ok[toolbox.Matches](t, search, dir, args{"query": "func "})
	require.Len(t, got.Matches, 3)
	require.Equal(t, toolbox.Match{Path: "a/z.go", Line: 1, Text: "func B()"}, got.Matches[0])
	require.Equal(t, toolbox.Match{Path: "b.go", Line: 2, Text: "func A()"}, got.Matches[1])
	require.Equal(t, "long", got.Matches[2].Path)
	require.Contains(t, got.Matches[2].Text, "func E()")
	require.Less(t, len(got.Matches[2].Text), 500)
	require.Regexp(t, `^\[\.\.\.\].*\[\.\.\.\]$`, got.Matches[2].Text)
	require.Equal(t, 1, got.Binary)
	require.Equal(t, 3, got.Files)
	require.False(t, got.Truncated)

	require.Len(t, ok[toolbox.Matches](t, search, dir, args{"query": `func [AB]\(\)$`, "regex": true}).Matches, 2)
	require.Empty(t, ok[toolbox.Matches](t, search, dir, args{"query": `func [AB]`}).Matches)
	require.True(t, fails(t, search, dir, args{"query": "(", "regex": true}, "missing closing"))
	fails(t, search, dir, args{"query": "x", "dir": "gone"}, "no such file")
}

func TestSearchingIsBounded(t *testing.T) {
	dir := tree(t, map[string]string{"f": strings.Repeat("hit\n", 1000)})
	got := ok[toolbox.Matches](t, all(t)["search_files"], dir, args{"query": "hit"})
	require.Len(t, got.Matches, 200)
	require.True(t, got.Truncated)
}

func TestWriting(t *testing.T) {
	dir := tree(t, map[string]string{"run.sh": "old"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o775))
	write := all(t)["write_file"]
	require.Equal(t, toolbox.Written{Path: "new/deep/f", Bytes: 2, Created: true},
		ok[toolbox.Written](t, write, dir, args{"path": "new/deep/f", "content": "hi"}))
	require.Equal(t, "hi", content(t, dir, "new", "deep", "f"))
	require.Equal(t, toolbox.Written{Path: "run.sh", Bytes: 0}, ok[toolbox.Written](t, write, dir, args{"path": "./run.sh", "content": ""}))
	info, err := os.Stat(filepath.Join(dir, "run.sh"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o775), info.Mode().Perm())
	fails(t, write, dir, args{"path": "run.sh/x", "content": ""}, "not a directory")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing is left aside")
}

func TestEditing(t *testing.T) {
	dir := tree(t, map[string]string{"f": "a b a\nb\xff a\n", "crlf": "one\r\ntwo\r\n"})
	edit := all(t)["edit_file"]
	require.True(t, fails(t, edit, dir, args{"path": "f", "old": "zzz", "new": ""}, "does not occur"))
	require.True(t, fails(t, edit, dir, args{"path": "f", "old": "a", "new": "c"}, "occurs 3 times, first in lines 1, 1, 2"))
	require.True(t, fails(t, edit, dir, args{"path": "f", "old": "a", "new": "a"}, "the same text"))
	require.True(t, fails(t, edit, dir, args{"path": "crlf", "old": "one\ntwo", "new": "x"}, `end in \r\n`))
	fails(t, edit, dir, args{"path": "gone", "old": "a", "new": "b"}, "no such file")
	require.Equal(t, tool.InvalidArguments, invoke(t, edit, dir, args{"path": "f", "old": "", "new": "b"}).Code)

	require.Equal(t, toolbox.Edited{Path: "f", Replaced: 1, Bytes: 12}, ok[toolbox.Edited](t, edit, dir, args{"path": "f", "old": "b a\nb", "new": "BAD $1"}))
	require.Equal(t, "a BAD $1\xff a\n", content(t, dir, "f"), "bytes that are not text survive")
	require.Equal(t, 2, ok[toolbox.Edited](t, edit, dir, args{"path": "f", "old": "a", "new": "", "all": true}).Replaced)
	require.Equal(t, " BAD $1\xff \n", content(t, dir, "f"))
}

func TestDeleting(t *testing.T) {
	dir := tree(t, map[string]string{"a/f": ""})
	require.Equal(t, toolbox.Deleted{Path: "a/f", Kind: "file"}, ok[toolbox.Deleted](t, all(t)["delete_file"], dir, args{"path": "a/f"}))
	require.NoFileExists(t, filepath.Join(dir, "a", "f"))
	fails(t, all(t)["delete_file"], dir, args{"path": "a/f"}, "no such file")
}
