package git

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/assent-dev/assent/worktree"
)

// attrValue is what an attribute file says: set, unset, unspecified again, or a text.
type attrValue struct {
	kind attrKind
	text string
}

type attrKind int

const (
	attrSet attrKind = iota + 1
	attrUnset
	attrUnspecified
	attrText
)

// attrRule is one line of an attribute file.
type attrRule struct {
	pathPattern
	macro string // name of the macro that the line defines, instead of a pattern
	names []string
	value []attrValue
}

const (
	maxAttrLine = 2048      // git ignores longer lines
	maxAttrFile = 100 << 20 // and larger files
)

// parseAttributes reads an attribute file of folder base. Lines that git rejects are left out. Macros count only
// where git allows them.
func parseAttributes(text, base string, macros bool) []attrRule {
	if len(text) >= maxAttrFile {
		return nil
	}
	var out []attrRule
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) >= maxAttrLine {
			continue
		}
		if r, ok := parseAttrLine(line, base, macros); ok {
			out = append(out, r)
		}
	}
	return out
}

const blanks = " \t\r\n"

func parseAttrLine(line, base string, macros bool) (r attrRule, ok bool) {
	line = strings.TrimLeft(line, blanks)
	if line == "" || line[0] == '#' {
		return r, false
	}
	var name string
	if line[0] == '"' {
		if name, line, ok = unquote(line); !ok {
			// git falls back to the bare word
			name, line = cutBlank(line)
		}
	} else {
		name, line = cutBlank(line)
	}
	if macro, is := strings.CutPrefix(name, "[attr]"); is && macros {
		// `[attr]name` or `[attr] name`
		if macro == "" {
			macro, line = cutBlank(strings.TrimLeft(line, blanks))
		}
		if !validAttr(macro) {
			return r, false
		}
		r.macro = macro
	} else {
		if is {
			return r, false
		}
		if r.pathPattern = parsePattern(name, base); r.negative {
			return r, false
		}
	}
	for line = strings.TrimLeft(line, blanks); line != ""; line = strings.TrimLeft(line, blanks) {
		var word string
		word, line = cutBlank(line)
		v := attrValue{kind: attrSet}
		switch {
		case word[0] == '-':
			v.kind, word = attrUnset, word[1:]
		case word[0] == '!':
			v.kind, word = attrUnspecified, word[1:]
		default:
			if key, text, has := strings.Cut(word, "="); has {
				word, v = key, attrValue{attrText, text}
			}
		}
		if !validAttr(word) {
			return r, false
		}
		r.names = append(r.names, word)
		r.value = append(r.value, v)
	}
	return r, true
}

func cutBlank(s string) (word, rest string) {
	if i := strings.IndexAny(s, blanks); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

func validAttr(name string) bool {
	if name == "" || name[0] == '-' || strings.HasPrefix(name, "builtin_") {
		return false
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; !isAlnum(c) && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}

// attributes answers which attributes a path has.
type attributes struct {
	// byGit keeps rules that only git can follow.
	byGit        bool
	files        map[string][]attrRule
	info, config []attrRule
	macros       map[string]attrRule
}

// newAttributes starts with the rules that lie outside the tree. Any rule that asks for a program or an encoding
// table is refused with a *worktree.NeedsGitError, whether a file matches it or not: the agent may make one that does.
func newAttributes(s settings) (*attributes, error) {
	a := &attributes{byGit: s.ByGit, files: map[string][]attrRule{}, macros: map[string]attrRule{}}
	a.define(parseAttributes("[attr]binary -diff -merge -text", "", true))
	a.config = parseAttributes(s.Attributes, "", true)
	a.define(a.config)
	a.info = parseAttributes(s.InfoAttributes, "", true)
	return a, errors.Join(a.refuse(a.config, "core.attributesFile"), a.refuse(a.info, "info/attributes"))
}

// add takes the .gitattributes of a folder. The top folder must come first, and finish after it.
func (a *attributes) add(dir, text string) error {
	rules := parseAttributes(text, dir, dir == "")
	if dir == "" {
		a.define(rules)
	}
	a.files[dir] = rules
	return a.refuse(rules, path.Join(dir, ".gitattributes"))
}

// refuse refuses what git does with programs, tables or keyword expansion.
func (a *attributes) refuse(rules []attrRule, file string) error {
	if a.byGit {
		return nil
	}
	for _, r := range rules {
		for i, name := range r.names {
			v := r.value[i]
			reason := ""
			switch {
			case name == "filter" && v.kind == attrText:
				reason = fmt.Sprintf("filter driver %q", v.text)
			case name == "ident" && v.kind == attrSet:
				reason = "ident attribute"
			case name == "working-tree-encoding" && v.kind == attrText && v.text != "" &&
				!strings.EqualFold(v.text, "utf-8") && !strings.EqualFold(v.text, "utf8"):
				reason = fmt.Sprintf("working-tree-encoding %q", v.text)
			default:
				continue
			}
			return &worktree.NeedsGitError{Reason: reason + " in " + file}
		}
	}
	return nil
}

// finish lets the macros of info/attributes override those of the tree; call it after the top folder was added.
func (a *attributes) finish() { a.define(a.info) }

func (a *attributes) define(rules []attrRule) {
	for _, r := range rules {
		if r.macro != "" {
			a.macros[r.macro] = r
		}
	}
}

// empty reports that no path can have an attribute.
func (a *attributes) empty() bool { return len(a.files) == 0 && len(a.info) == 0 && len(a.config) == 0 }

// of returns the attributes of a file. The first rule that speaks of an attribute counts, asked from the last
// line of the nearest source to the first line of the farthest.
func (a *attributes) of(file string) map[string]attrValue {
	got := map[string]attrValue{}
	a.apply(got, a.info, file)
	for dir := file; dir != ""; {
		dir = dir[:max(strings.LastIndexByte(dir, '/'), 0)]
		a.apply(got, a.files[dir], file)
	}
	a.apply(got, a.config, file)
	return got
}

func (a *attributes) apply(got map[string]attrValue, rules []attrRule, file string) {
	for i := len(rules) - 1; i >= 0; i-- {
		if rules[i].macro == "" && rules[i].match(file, false) {
			a.fill(got, rules[i])
		}
	}
}

func (a *attributes) fill(got map[string]attrValue, r attrRule) {
	for i := len(r.names) - 1; i >= 0; i-- {
		name := r.names[i]
		if _, known := got[name]; known {
			continue
		}
		got[name] = r.value[i]
		if m, ok := a.macros[name]; ok && r.value[i].kind == attrSet {
			a.fill(got, m)
		}
	}
}
