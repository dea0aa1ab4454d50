package layout

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Package is what the test needs to know of a package: code that ships and, of its tests, only the examples.
type Package struct {
	Dir, Name string
	// Imports are those of all platforms, sorted.
	Imports []string
	// Documented is true when a file has a package comment; DocLines is the length of doc.go, 0 without one.
	Documented bool
	DocLines   int
	Examples   int
	Files      []Extent
	Funcs      []Extent
}

// Extent is a file or a function and its lines.
type Extent struct {
	Name  string
	Lines int
}

// Scan reads the packages below root, nested modules and testdata excepted.
func Scan(root string) ([]Package, error) {
	found := map[string]*Package{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(filepath.ToSlash(rel), file, d.Name())
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		dir := path.Dir(filepath.ToSlash(rel))
		if found[dir] == nil {
			found[dir] = &Package{Dir: dir}
		}
		return found[dir].read(file)
	})
	if err != nil {
		return nil, fmt.Errorf("read the packages of %q: %w", root, err)
	}
	out := make([]Package, 0, len(found))
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		p := found[dir]
		slices.Sort(p.Imports)
		p.Imports = slices.Compact(p.Imports)
		out = append(out, *p)
	}
	return out, nil
}

// enter says whether a folder holds packages of this module.
func enter(rel, dir, name string) error {
	if rel == "." {
		return nil
	}
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

func (p *Package) read(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if strings.HasSuffix(file, "_test.go") {
		p.readTest(f)
		return nil
	}
	p.Name = f.Name.Name
	lines := bytes.Count(text, []byte("\n"))
	base := filepath.Base(file)
	p.Files = append(p.Files, Extent{base, lines})
	p.Documented = p.Documented || f.Doc != nil
	if base == "doc.go" {
		p.DocLines = lines
	}
	for _, i := range f.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		p.Imports = append(p.Imports, name)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			n := files.Position(fn.End()).Line - files.Position(fn.Pos()).Line + 1
			p.Funcs = append(p.Funcs, Extent{base + " " + fn.Name.Name, n})
		}
	}
	return nil
}

func (p *Package) readTest(f *ast.File) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Example") {
			p.Examples++
		}
	}
}
