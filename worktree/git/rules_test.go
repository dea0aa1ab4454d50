package git

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patternCorpus are patterns that have bitten somebody, and paths to try them on.
var (
	patternCorpus = []string{
		"a", "/a", "a/", "/a/", "a/b", "/a/b", "*.o", "!keep.o", "**/x", "x/**", "a/**/b", "**", "/**", "a/*", "a/**/", "*", "/*",
		"?", "a?c", "[ab]", "[!a]", "[^a]", "[a-c].o", "[]]", "[a", "[[:alpha:]]x", "[[:digit:][:upper:]]", "[[:nope:]]", "[a-]", "[--0]",
		`\#a`, `\!a`, "#a", "!a", `a\ `, "a ", "a  ", `\a`, `a\`, `\\`, `a\*b`, "foo/**bar", "foo**/bar", "**foo", "a/**/**/b", "*/b", "*/*/b",
		"b*r", "*a*a*a*b", "dir/sub/", "!dir/sub/keep", "dir/*", "!dir/keep", "ü", "[ü]", " lead", "/", "!", "//a", "a//b", "./a", "*[]x]", "**/", "***", "a***b",
	}
	pathCorpus = []string{
		"a", "b", "c", "x", "a/b", "a/x", "a/b/c", "a/c/b", "x/y/z", "a/b/x", "keep.o", "y.o", "a.o", "dir/sub/keep", "dir/sub/no", "dir/keep", "dir/no",
		"abc", "#a", "!a", "a ", `a\`, `\`, "a*b", "foo/bar", "fooz/bar", "foo/zbar", "foo/x/bar", "foo/foobar", "bar", "baaar", "aaab", "aXaXaXb",
		"ü", " lead", "]", "[a", "-", "0", "Ax", "1", "a/b/keep.o", "q/w/e/r/b", "a-", "sub/a", "sub/dir/a.o", "sub/x/y",
	}
)

func TestIgnoreRulesAreGits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func() string {
		var b strings.Builder
		for range 1 + rng.IntN(4) {
			b.WriteString(patternCorpus[rng.IntN(len(patternCorpus))] + []string{"\n", "\n", "\r\n"}[rng.IntN(3)])
		}
		return b.String()
	}
	paths := slices.Clone(pathCorpus)
	slices.Sort(paths)
	slices.Reverse(paths) // folders before files of the same name
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	for _, p := range paths {
		put(t, dir, "t/"+p+".d/file", "") // a folder of nearly that name
		if _, err := os.Lstat(filepath.Join(dir, "t", p)); err != nil {
			put(t, dir, "t/"+p, "")
		}
	}
	for round := range 80 {
		top, info, sub := pick(), pick(), pick()
		if round < len(patternCorpus) {
			top = patternCorpus[round] + "\n"
		}
		put(t, dir, "t/.gitignore", top)
		put(t, dir, "t/sub/.gitignore", sub)
		put(t, dir, ".git/info/exclude", info)
		rules := &ignoreRules{files: map[string][]pathPattern{
			"t": parseIgnore(top, "t"), "t/sub": parseIgnore(sub, "t/sub"),
		}, info: parseIgnore(info, "")}
		want := strings.Split(git(t, dir, "ls-files", "-z", "-o", "--exclude-standard"), "\x00")
		got := append(unignored(t, rules, dir, ""), "")
		require.ElementsMatch(t, want, got, "top %q info %q sub %q", top, info, sub)
	}
}

// TestManyStarsDoNotTakeForEver would not end with a matcher that tries every split.
func TestManyStarsDoNotTakeForEver(t *testing.T) {
	for _, part := range []string{"**/", "*a", "**a", "a**", "*[a]", "**/a/", "*?", "**/[a]*"} {
		for _, paths := range []bool{true, false} {
			pattern := strings.Repeat(part, 40) + "x"
			assert.False(t, wildmatch(pattern, strings.Repeat("a/", 100)+"b", paths))
			assert.False(t, wildmatch(pattern, strings.Repeat("a", 200)+"b", paths))
			assert.True(t, wildmatch(strings.Repeat("**/", 40)+"b", strings.Repeat("a/", 100)+"b", true))
		}
	}
}

// unignored walks as scan does.
func unignored(t *testing.T, rules *ignoreRules, top, dir string) []string {
	entries, err := os.ReadDir(filepath.Join(top, dir))
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		path := strings.TrimPrefix(dir+"/"+e.Name(), "/")
		if path == ".git" || rules.match(path, e.IsDir()) {
			continue
		}
		if e.IsDir() {
			out = append(out, unignored(t, rules, top, path)...)
		} else {
			out = append(out, path)
		}
	}
	return out
}

func TestAttributesAreGits(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	words := []string{"text", "-text", "!text", "text=auto", "eol=crlf", "eol=lf", "-eol", "binary", "-binary", "mine", "-mine", "!mine", "mine=1", "crlf=input", "-crlf", "bad!name", "x-y.z", "text=input"}
	pick := func(top bool) string {
		var b strings.Builder
		for range 1 + rng.IntN(6) {
			p := patternCorpus[rng.IntN(len(patternCorpus))]
			if top && rng.IntN(5) == 0 {
				p = "[attr]mine"
			}
			if strings.Contains(p, " ") {
				p = quoted(p)
			}
			b.WriteString([]string{"", " ", "\t"}[rng.IntN(3)] + p)
			for range rng.IntN(3) {
				b.WriteString(" " + words[rng.IntN(len(words))])
			}
			b.WriteString([]string{"\n", " \n", "\r\n"}[rng.IntN(3)])
		}
		return b.String()
	}
	asked := []string{"text", "eol", "binary", "mine", "crlf", "diff", "merge", "x-y.z"}
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	for range 80 {
		top, info, sub := pick(true), pick(true), pick(false)
		put(t, dir, ".gitattributes", top)
		put(t, dir, "sub/.gitattributes", sub)
		put(t, dir, ".git/info/attributes", info)
		a, err := newAttributes(settings{InfoAttributes: info})
		require.NoError(t, err)
		require.NoError(t, a.add("", top))
		a.finish()
		require.NoError(t, a.add("sub", sub))
		var stdin strings.Builder
		for _, p := range pathCorpus {
			stdin.WriteString(p + "\x00")
		}
		out, err := tryGit(dir, []byte(stdin.String()), append([]string{"check-attr", "-z", "--stdin"}, asked...)...)
		require.NoError(t, err)
		fields := strings.Split(out, "\x00")
		for i := 0; i+2 < len(fields); i += 3 {
			got := "unspecified"
			switch v := a.of(fields[i])[fields[i+1]]; v.kind {
			case attrSet:
				got = "set"
			case attrUnset:
				got = "unset"
			case attrText:
				got = v.text
			}
			require.Equal(t, fields[i+2], got, "%s of %q\ntop %q\ninfo %q\nsub %q", fields[i+1], fields[i], top, info, sub)
		}
	}
}

// quoted forces quotes.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func TestQuoteAndBack(t *testing.T) {
	for c := range 256 {
		s := "x" + string([]byte{byte(c)}) + "ü"
		text, rest, ok := unquote(quote("", s) + " rest")
		require.True(t, ok)
		assert.Equal(t, s, text)
		assert.Equal(t, " rest", rest)
	}
	assert.Equal(t, "a/plain name", quote("a/", "plain name"))
	for _, bad := range []string{`"`, `"\`, `"\8`, `"\40`, `"\400"`, `"\x"`} {
		_, _, ok := unquote(bad)
		assert.False(t, ok, bad)
	}
}

func TestValidNames(t *testing.T) {
	for _, n := range []string{"", ".", "..", ".git", ".GIT", ".Git", "git~1", "GIT~1", ".git.", ".git ", ".git . .", ".git::$INDEX_ALLOCATION", ".git:x", `a\.git`, `.git\a`, ".g\u200cit", "\ufeff.git", "a/b", "a\x00"} {
		assert.False(t, validName(n, false), "%q", n)
	}
	for _, n := range []string{"a", ".gitignore", ".gitmodules", "git", "git~2", "...", ".gi", "a.git", ".github", " .git", `a\b`, "\xff"} {
		assert.True(t, validName(n, false), "%q", n)
	}
	assert.False(t, validName(".gitmodules", true))
	assert.True(t, validName(".gitmodules2", true))
}

func TestConfigIsReadAsGitReadsIt(t *testing.T) {
	for i, text := range []string{
		"[core]\n\tbare = false\n", "[a \"B c\"]\nKey=V\n[A.b]\nk=1\n", "[a]\nx\ny=\nz = \"\"\n", "[a]k=v ; c\nl = a # b\nm=\"#;\"\n",
		"[a]\n\tk = one \\\n two\n", "[a]\nk = a\\tb\\n\\\"q\\\"\\\\\n", "[a \"q\\\"\\\\x\"]\nk=1\n", "\xef\xbb\xbf[a]\r\nk = v\r\n", "[a]\nk =   spaced  out  \n",
		"[a]\nk = \"  in  \" \n", "# c\n; d\n[a]\n  # e\n k=v", "[a]k\n", "[a]\nk=1\nk=2\n", "[a] [b] k=1\n", "[a \"\"]\nk=v\n", "[a-b.c-d]\nk-l=v\n", "[a]\nk = a\\b\n",
		"[a\n", "[a]\n1=2\n", "k=v\n", "[a]\nk=\"x\n", "[a]\nk=\\q\n", "[a b]\nk=1\n", "[a \"x]\nk=1\n", "[a]\nk_l=1\n", "[a]\nk v\n", "[a \"x\"y]\n", "[a]]\n", "[a]\nk = v\\", "[\x00]\n",
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
			out, gitErr := tryGit(filepath.Dir(file), nil, "config", "--file", file, "-z", "--list")
			list, err := parseConfig(text)
			require.Equal(t, gitErr == nil, err == nil, "%q: git %v, we %v", text, gitErr, err)
			if err != nil {
				return
			}
			var got strings.Builder
			for _, s := range list {
				if got.WriteString(s.Key); !s.Implicit {
					got.WriteString("\n" + s.Value)
				}
				got.WriteByte(0)
			}
			require.Equal(t, out, got.String(), "%q", text)
		})
	}
}
