package layout

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// The limits of house style. Tests are not held to them.
const (
	mostFileLines = 450
	mostFuncLines = 70
	mostDocLines  = 40
)

// noNames are package names that say nothing.
var noNames = []string{"util", "utils", "common", "types", "helper", "helpers", "misc", "shared", "base"}

// find returns the room of a package.
func find(rooms []Room, dir string) (Room, bool) {
	i := slices.IndexFunc(rooms, func(r Room) bool { return r.covers(dir) })
	if i < 0 {
		return Room{}, false
	}
	return rooms[i], true
}

func (r Room) covers(dir string) bool {
	if parent, ok := strings.CutSuffix(r.Dir, "/*"); ok {
		return path.Dir(dir) == parent
	}
	return r.Dir == dir
}

// Unknown reports packages without a row and rows without a package.
func Unknown(rooms []Room, packages []Package) []string {
	var out []string
	for _, p := range packages {
		if _, ok := find(rooms, p.Dir); !ok {
			out = append(out, fmt.Sprintf("%s: add a row for it to Rooms in internal/layout/rooms.go, on a floor above all that it imports, "+
				"and run `go test ./internal/layout -update`", p.Dir))
		}
	}
	for i, r := range rooms {
		if !slices.ContainsFunc(packages, func(p Package) bool { return r.covers(p.Dir) }) {
			out = append(out, fmt.Sprintf("%s: there is no such package; remove its row from Rooms", r.Dir))
		}
		if slices.ContainsFunc(rooms[:i], func(o Room) bool { return o.covers(r.Dir) }) {
			out = append(out, fmt.Sprintf("%s: has two rows", r.Dir))
		}
	}
	return out
}

// Arrows reports imports that do not point to a lower floor, that a room's job forbids, or that bring in a
// third-party module nobody allowed.
func Arrows(rooms []Room, packages []Package) []string {
	var out []string
	for _, p := range packages {
		room, ok := find(rooms, p.Dir)
		if !ok {
			continue
		}
		for _, i := range p.Imports {
			if why := room.refuses(rooms, i); why != "" {
				out = append(out, fmt.Sprintf("%s (floor %d) imports %s: %s", p.Dir, room.Floor, i, why))
			}
		}
	}
	return out
}

// refuses says why a room may not import a path, or nothing.
func (r Room) refuses(rooms []Room, imported string) string {
	own, inside := local(imported)
	name := imported
	if inside {
		name = own
	}
	first, _, _ := strings.Cut(imported, "/")
	switch {
	case slices.Contains(r.Never, name):
		return "its row in Rooms says never"
	case inside:
		target, ok := find(rooms, own)
		if ok && target.Floor >= r.Floor {
			return fmt.Sprintf("that is floor %d, and arrows only point down; what both need belongs into a package below both", target.Floor)
		}
		return ""
	case !strings.Contains(first, "."):
		return "" // the standard library
	}
	for _, allowed := range r.Third {
		if imported == allowed || strings.HasPrefix(imported, allowed+"/") {
			return ""
		}
	}
	return "the row of the package in Rooms does not allow it; keep it behind the package that has it, or add it with a reason"
}

// local returns the folder of a package of this module.
func local(imported string) (string, bool) {
	if imported == Module {
		return ".", true
	}
	return strings.CutPrefix(imported, Module+"/")
}

// Style reports what is too large, badly named, undocumented or without an example.
func Style(packages []Package) []string {
	var out []string
	say := func(p Package, format string, args ...any) {
		out = append(out, p.Dir+": "+fmt.Sprintf(format, args...))
	}
	for _, p := range packages {
		if slices.Contains(noNames, p.Name) {
			say(p, "package %s: the name says nothing; name it after what it provides", p.Name)
		}
		if !p.Documented {
			say(p, "has no package comment")
		}
		if p.library() && p.public() && p.Dir != "." && p.DocLines == 0 {
			say(p, "has no doc.go")
		}
		if p.DocLines > mostDocLines {
			say(p, "doc.go has %d lines, at most %d", p.DocLines, mostDocLines)
		}
		if p.library() && p.public() && p.Examples == 0 {
			say(p, "has no Example in its tests")
		}
		for _, f := range p.Files {
			if f.Lines > mostFileLines {
				say(p, "%s has %d lines, at most %d", f.Name, f.Lines, mostFileLines)
			}
		}
		for _, f := range p.Funcs {
			if f.Lines > mostFuncLines {
				say(p, "%s has %d lines, at most %d", f.Name, f.Lines, mostFuncLines)
			}
		}
	}
	return out
}

func (p Package) library() bool { return p.Name != "main" }

// public reports whether others can import it.
func (p Package) public() bool { return !slices.Contains(strings.Split(p.Dir, "/"), "internal") }
