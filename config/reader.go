package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/assent-dev/assent/fault"
)

// reader turns one YAML tree into a File. The first error sticks and ends all reading, unless many are wanted.
type reader struct {
	name, dir string
	lines     []string
	// nodes remembers where each dotted key's value stands, for errors found after reading.
	nodes map[string]place
	err   error
	// many is the number of errors after which reading ends; zero is one. Until then errs has them and err is nil.
	many int
	errs []*fault.ConfigError
	// keys holds the dotted key of every error, which its text may leave out.
	keys map[*fault.ConfigError]string
}

// place is a line and a column, both from 1; the zero place is the file as a whole.
type place struct{ line, column int }

func placeOf(t *token.Token) place { return place{t.Position.Line, t.Position.Column} }

// placeOfNode is where the value begins; a block mapping's own token is its first colon.
func placeOfNode(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return placeOf(m.Values[0].Key.GetToken())
	}
	return placeOf(n.GetToken())
}

func (r *reader) errorAt(p place, key, msg string) *fault.ConfigError {
	e := &fault.ConfigError{File: r.name, Line: p.line, Column: p.column, Key: key, Msg: msg}
	e.Excerpt = r.excerpt(p)
	r.keys[e] = key
	return e
}

// excerpt shows the line before, the line, and a mark below the column.
func (r *reader) excerpt(p place) string {
	if p.line < 1 || p.line > len(r.lines) {
		return ""
	}
	var b strings.Builder
	show := func(mark string, n int) {
		text := []rune(strings.TrimSuffix(r.lines[n-1], "\r"))
		if len(text) > 160 {
			text = append(text[:160], '…')
		}
		fmt.Fprintf(&b, "%s%4d | %s\n", mark, n, string(text))
	}
	if p.line > 1 {
		show("  ", p.line-1)
	}
	show("> ", p.line)
	if p.column <= 160 {
		fmt.Fprintf(&b, "       | %s^\n", strings.Repeat(" ", max(p.column, 1)-1))
	}
	return b.String()
}

// fail records an error: the first, or as many as are wanted. An error that may only follow from one before is not one.
func (r *reader) fail(e *fault.ConfigError) {
	switch {
	case r.err != nil:
	case r.many == 0:
		r.err = e
	case !slices.ContainsFunc(r.errs, func(before *fault.ConfigError) bool { return r.follows(e, before) }):
		if r.errs = append(r.errs, e); len(r.errs) >= r.many {
			r.err = e
		}
	}
}

// follows reports an error at the place of one before, or about a mapping in which something could not be read.
func (r *reader) follows(e, before *fault.ConfigError) bool {
	return e.Line == before.Line && e.Column == before.Column || below(r.keys[before], r.keys[e])
}

// below reports whether a dotted key is inside another.
func below(key, outer string) bool {
	rest, ok := strings.CutPrefix(key, outer)
	return ok && outer != "" && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

// locate gives an error of another package, whose Key is a dotted key of this file, its place. The key is then said by
// the place; it stays in the message only where the message would not say what it is about.
func (r *reader) locate(err error) {
	if err == nil {
		return
	}
	var e *fault.ConfigError
	if !errors.As(err, &e) {
		e = fault.Configf("", "%v", err)
	}
	at := r.errorAt(r.nearest(e.Key), e.Key, e.Msg)
	at.Allowed, at.Cause = e.Allowed, e.Cause
	if strings.HasPrefix(e.Msg, "unknown ") {
		at.Key = ""
	}
	r.fail(at)
}

// nearest finds the place of a key, or of the nearest thing around it.
func (r *reader) nearest(key string) place {
	for {
		if p, ok := r.nodes[key]; ok || key == "" {
			return p
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
}

// value is one node under its dotted key.
type value struct {
	r    *reader
	key  string
	node ast.Node
}

func (v value) fail(format string, args ...any) {
	v.r.fail(v.r.errorAt(placeOfNode(v.node), v.key, fmt.Sprintf(format, args...)))
}

// unknown reports a value outside a closed set.
func (v value) unknown(what, got string, allowed ...string) {
	e := v.r.errorAt(placeOfNode(v.node), v.key, fmt.Sprintf("unknown %s %q", what, got))
	e.Key, e.Allowed = "", allowed // the place says the key
	v.r.fail(e)
}

// want reports a value of the wrong type.
func (v value) want(what string) {
	if _, ok := v.node.(*ast.NullNode); ok {
		v.fail("is empty, want %s", what)
		return
	}
	hint := ""
	if m, ok := v.node.(*ast.MappingNode); ok && len(m.Values) == 1 && strings.Contains(what, "string") {
		hint = "; quote text that holds a colon"
	}
	v.fail("want %s, got %s%s", what, kind(v.node), hint)
}

func kind(n ast.Node) string {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return "a string"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "a boolean"
	case *ast.SequenceNode:
		return "a list"
	}
	return "a mapping" // null is handled by want, and the rest of YAML was refused before
}

// child is a value below v; its place is remembered.
func (v value) child(suffix string, node ast.Node) value {
	c := value{r: v.r, key: v.key + suffix, node: node}
	v.r.nodes[c.key] = placeOfNode(node)
	return c
}

// entries visits the members of a mapping in the order written.
func (v value) entries(what string, visit func(name string, key place, member value)) {
	m, ok := v.node.(*ast.MappingNode)
	if !ok {
		v.want(what)
		return
	}
	for _, member := range m.Values {
		if v.r.err != nil {
			return
		}
		at := placeOf(member.Key.GetToken())
		name, ok := member.Key.(*ast.StringNode)
		if !ok {
			v.r.fail(v.r.errorAt(at, v.key, "a key must be a string; quote it"))
			return
		}
		suffix := "." + name.Value
		if v.key == "" {
			suffix = name.Value
		}
		visit(name.Value, at, v.child(suffix, member.Value))
	}
}

// field is a known key of a mapping and what reads its value.
type field struct {
	name string
	read func(value)
}

// fields reads a mapping whose keys are known.
func (v value) fields(known ...field) {
	v.entries("a mapping", func(name string, at place, member value) {
		for _, f := range known {
			if f.name == name {
				f.read(member)
				return
			}
		}
		names := make([]string, len(known))
		for i, f := range known {
			names[i] = f.name
		}
		msg := fmt.Sprintf("unknown key %q", name)
		if guess := closest(name, names); guess != "" {
			msg += fmt.Sprintf(", did you mean %q", guess)
		}
		e := v.r.errorAt(at, v.key+"."+name, msg)
		e.Key, e.Allowed = v.key, names
		v.r.fail(e)
	})
}

// closest returns the candidate that a slip of the pen makes of name, or nothing.
func closest(name string, candidates []string) string {
	best, least := "", 3
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < least && d < len(c) {
			best, least = c, d
		}
	}
	return best
}

// distance is Levenshtein's, with everything over 64 letters far away.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], slices.Min([]int{row[j+1] + 1, row[j] + 1, diagonal + cost})
		}
	}
	return row[len(b)]
}
