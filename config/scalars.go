package config

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// text reads a string, quoted, plain or as a block.
func (v value) text() string {
	s, ok := stringOf(v.node)
	if !ok {
		v.want("a string")
	}
	return s
}

func stringOf(n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	}
	return "", false
}

// name reads a string that is not blank.
func (v value) name() string {
	s := v.text()
	if strings.TrimSpace(s) == "" && v.r.err == nil {
		v.fail("is empty")
	}
	return s
}

// path reads a path and resolves it against the file's folder.
func (v value) path() string {
	p := v.name()
	if strings.HasPrefix(p, "~") {
		v.fail("~ is not expanded; write the path out")
	}
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(v.r.dir, p)
}

// list visits the elements of a sequence.
func (v value) list(what string, visit func(value)) {
	s, ok := v.node.(*ast.SequenceNode)
	if !ok {
		v.want(what)
		return
	}
	for i, node := range s.Values {
		if v.r.err != nil {
			return
		}
		visit(v.child(fmt.Sprintf("[%d]", i), node))
	}
}

// names reads a list of strings, none blank and none twice. An empty list is not nil.
func (v value) names() []string {
	out := []string{}
	seen := map[string]bool{}
	v.list("a list of strings", func(e value) {
		s := e.name()
		if seen[s] {
			e.fail("%q stands twice", s)
		}
		seen[s] = true
		out = append(out, s)
	})
	return out
}

// oneOrMany reads a string or a list of strings, as a rule keeps it.
func (v value) oneOrMany() permission.Strings {
	if s, ok := stringOf(v.node); ok {
		return permission.One(s)
	}
	out := permission.Many()
	v.list("a string or a list of strings", func(e value) { out.Values = append(out.Values, e.text()) })
	return out
}

func (v value) boolean() bool {
	b, ok := v.node.(*ast.BoolNode)
	if !ok {
		v.want("true or false")
		return false
	}
	return b.Value
}

// integer reads a whole number of at least least.
func (v value) integer(least int) int {
	n, ok := v.node.(*ast.IntegerNode)
	if !ok {
		v.want("a whole number")
		return 0
	}
	// The text is parsed anew: the node's own value has lost its sign and size.
	i, err := strconv.Atoi(n.GetToken().Value)
	switch {
	case err != nil:
		v.fail("%s is no whole number in plain decimal digits", n.GetToken().Value)
	case i < least && least == 0:
		v.fail("%d is negative", i)
	case i < least:
		v.fail("%d is less than %d", i, least)
	}
	return i
}

// dollars reads an amount of money, more than zero.
func (v value) dollars() float64 {
	switch v.node.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
	default:
		v.want("an amount in USD")
		return 0
	}
	f, err := strconv.ParseFloat(v.node.GetToken().Value, 64)
	switch {
	case err != nil || f <= 0:
		v.fail("%s is no amount of more than zero", v.node.GetToken().Value)
	case f > protocol.MostBudget:
		v.fail("%s is more than %d", v.node.GetToken().Value, int(protocol.MostBudget))
	}
	return f
}

// duration reads a Go duration of more than zero.
func (v value) duration() time.Duration {
	s, ok := stringOf(v.node)
	if !ok {
		v.want("a duration such as 90s, 30m or 48h")
		return 0
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		v.fail("bad duration %q, want one such as 90s, 30m or 48h", s)
	case d <= 0:
		v.fail("duration %q is not more than zero", s)
	}
	return d
}

// The bounds of how often something is told.
const (
	leastEvery = 100 * time.Millisecond
	mostEvery  = time.Minute
)

// every reads how often something is told: a duration, or off, which is negative.
func (v value) every() time.Duration {
	const want = "off or a duration from 100ms to 1m"
	if b, ok := v.node.(*ast.BoolNode); ok && !b.Value {
		return -1
	}
	s, ok := stringOf(v.node)
	if !ok {
		v.want(want)
		return 0
	}
	if s == "off" {
		return -1
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < leastEvery || d > mostEvery {
		v.fail("%q is not %s", s, want)
		return 0
	}
	return d
}

// bytes reads a number of bytes, plain or with a binary unit.
func (v value) bytes() int64 {
	if _, ok := v.node.(*ast.IntegerNode); ok {
		return int64(v.integer(0))
	}
	s, ok := stringOf(v.node)
	if !ok {
		v.want("a number of bytes such as 512MiB")
		return 0
	}
	for unit, size := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40} {
		if digits, ok := strings.CutSuffix(s, unit); ok {
			if n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 20); err == nil {
				return int64(n) * size
			}
		}
	}
	v.fail("bad size %q, want bytes, or KiB, MiB, GiB or TiB such as 512MiB", s)
	return 0
}

// choice reads one word of a closed set.
func (v value) choice(what string, allowed ...string) string {
	s := v.text()
	for _, a := range allowed {
		if s == a {
			return s
		}
	}
	if v.r.err == nil {
		v.unknown(what, s, allowed...)
	}
	return s
}
