package layout

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var sample = []Room{
	{Dir: "low", Floor: 0, Job: "a"},
	{Dir: "low/next", Floor: 0, Job: "b"},
	{Dir: "high", Floor: 1, Job: "c", Third: []string{"example.com/mod"}, Never: []string{"os", "low/next"}},
	{Dir: "examples/*", Floor: 2, Job: "d"},
}

// The test of the house is worth something only if it fails: each wrong thing is found, by name.
func TestWrongArrowsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		dir, imported, found string
	}{
		"down":                {"high", Module + "/low", ""},
		"standard library":    {"high", "net/http", ""},
		"allowed module":      {"high", "example.com/mod/sub", ""},
		"example":             {"examples/one", Module + "/high", ""},
		"up":                  {"low", Module + "/high", "low (floor 0) imports " + Module + "/high: that is floor 1"},
		"sideways":            {"low", Module + "/low/next", "that is floor 0"},
		"never, of ours":      {"high", Module + "/low/next", "never"},
		"never, of the std":   {"high", "os", "never"},
		"module of another":   {"low", "example.com/mod", "does not allow it"},
		"name of a neighbour": {"high", "example.com/module", "does not allow it"},
		"example of example":  {"examples/one", Module + "/examples/two", "that is floor 2"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Arrows(sample, []Package{{Dir: c.dir, Imports: []string{c.imported}}})
			if c.found == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Contains(t, got[0], c.found)
		})
	}
}

func TestRowsAndPackagesAreHeldTogether(t *testing.T) {
	all := []Package{{Dir: "low"}, {Dir: "low/next"}, {Dir: "high"}, {Dir: "examples/one"}, {Dir: "examples/two"}}
	require.Empty(t, Unknown(sample, all))
	got := Unknown(sample, append(all[1:], Package{Dir: "new"}))
	require.Len(t, got, 2)
	require.Contains(t, got[0], "new: add a row")
	require.Contains(t, got[1], "low: there is no such package")
	require.Contains(t, Unknown(append(sample, Room{Dir: "low"}), all)[0], "two rows")
}

func TestStyleIsFound(t *testing.T) {
	good := Package{Dir: "a", Name: "a", Documented: true, DocLines: 40, Examples: 1, Files: []Extent{{"a.go", 450}}, Funcs: []Extent{{"a.go f", 70}}}
	require.Empty(t, Style([]Package{good}))
	require.Empty(t, Style([]Package{{Dir: "cmd/x", Name: "main", Documented: true}, {Dir: "internal/x", Name: "x", Documented: true, DocLines: 3}}))
	for want, spoil := range map[string]func(*Package){
		"says nothing":       func(p *Package) { p.Name = "util" },
		"no package comment": func(p *Package) { p.Documented = false },
		"no doc.go":          func(p *Package) { p.DocLines = 0 },
		"at most 40":         func(p *Package) { p.DocLines = 41 },
		"no Example":         func(p *Package) { p.Examples = 0 },
		"at most 450":        func(p *Package) { p.Files = []Extent{{"a.go", 451}} },
		"at most 70":         func(p *Package) { p.Funcs = []Extent{{"a.go f", 71}} },
	} {
		bad := good
		spoil(&bad)
		got := Style([]Package{bad})
		require.Len(t, got, 1, want)
		require.Contains(t, got[0], want)
	}
}

func TestScanReadsEveryPlatformAndNoNestedModule(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/doc.go":             "// Package a is a.\npackage a\n",
		"a/a.go":               "package a\n\nimport \"fmt\"\n\nfunc F() {\n\tfmt.Println()\n}\n",
		"a/a_plan9.go":         "package a\n\nimport \"example.com/mod\"\n\nvar _ = mod.X\n",
		"a/a_test.go":          "package a\n\nimport \"testing\"\n\nfunc Example() {}\nfunc TestX(*testing.T) {}\n",
		"a/testdata/t.go":      "package broken {",
		"nested/go.mod":        "module example.com/nested\n",
		"nested/n.go":          "package n\n",
		".hidden/h.go":         "package h\n",
		"a/internal/deep/d.go": "package deep\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	got, err := Scan(dir)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, Package{Dir: "a", Name: "a", Imports: []string{"example.com/mod", "fmt"}, Documented: true, DocLines: 2, Examples: 1,
		Files: []Extent{{"a.go", 7}, {"a_plan9.go", 5}, {"doc.go", 2}}, Funcs: []Extent{{"a.go F", 3}}}, got[0])
	require.False(t, got[1].public())
}

func TestTableGoesBetweenItsMarks(t *testing.T) {
	page, err := Replace("x\n"+beginMark+"old\n"+endMark+"y\n", Table(sample))
	require.NoError(t, err)
	require.Contains(t, page, "| 1 | `high` | c | `example.com/mod` |\n| 0 | `low` | a |  |\n|  | `low/next` | b |  |\n"+endMark+"y\n")
	_, err = Replace("no marks", "")
	require.ErrorContains(t, err, "find the table")
}
