package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/assent-dev/assent/tool"
)

// bom may stand at the beginning of a file.
const bom = "\ufeff"

// WithAttestation returns the content of a file with the attestation of a profile in it, in place of one that is there.
// Everything else stays as it is written, with comments, order and line ends. What it cannot do safely it refuses: the
// result is read anew, and has to say the same as before but for the attestation. data has been read by Parse.
func WithAttestation(data []byte, profile string, a tool.Attestation) ([]byte, error) {
	text := strings.TrimPrefix(string(data), bom)
	e := &edit{eol: "\n", lines: strings.SplitAfter(text, "\n")}
	if strings.Contains(text, "\r\n") {
		e.eol = "\r\n"
	}
	if len(e.lines) > 1 && e.lines[len(e.lines)-1] == "" {
		e.lines = e.lines[:len(e.lines)-1]
	}
	was, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		return nil, fmt.Errorf("write the attestation: %w", err)
	}
	if len(was.Docs) == 0 {
		return nil, errors.New("write the attestation: the file is empty")
	}
	profiles, _ := member(was.Docs[0].Body, "profiles")
	of, _ := member(profiles, profile)
	if of == nil {
		return nil, fmt.Errorf("write the attestation: the file has no profile %q", profile)
	}
	if err := e.put(of, a); err != nil {
		return nil, fmt.Errorf("write the attestation: %w", err)
	}
	out := []byte(strings.TrimSuffix(string(data), text) + strings.Join(e.lines, ""))
	if err := sameBut(data, out, profile, a); err != nil {
		return nil, fmt.Errorf("write the attestation: the file is written in a way that this command does not understand (%w); put it in by hand", err)
	}
	return out, nil
}

// sameBut reports a difference between two files other than the attestation, or another one than was meant.
func sameBut(was, is []byte, profile string, a tool.Attestation) error {
	f, err := Parse("assent.yaml", is)
	if err != nil {
		return err
	}
	if got := f.Profiles[profile].Attestation; got == nil || !reflect.DeepEqual(*got, a) {
		return errors.New("it would not hold the attestation")
	}
	var before, after map[string]any
	for _, one := range []struct {
		data []byte
		to   *map[string]any
	}{{was, &before}, {is, &after}} {
		if err := yaml.Unmarshal(bytes.TrimPrefix(one.data, []byte(bom)), one.to); err != nil {
			return err
		}
		p, _ := (*one.to)["profiles"].(map[string]any)
		of, _ := p[profile].(map[string]any)
		permissions, _ := of["permissions"].(map[string]any)
		delete(permissions, "attestation")
		if len(permissions) == 0 {
			delete(of, "permissions")
		}
	}
	if !reflect.DeepEqual(before, after) {
		return errors.New("something else would change")
	}
	return nil
}

// edit is a text by lines, each with its end.
type edit struct {
	lines []string
	eol   string
}

// member is the value of a key of a mapping and the key's token; nil if there is none.
func member(n ast.Node, key string) (ast.Node, *token.Token) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return nil, nil
	}
	for _, v := range m.Values {
		if s, ok := v.Key.(*ast.StringNode); ok && s.Value == key {
			return v.Value, s.GetToken()
		}
	}
	return nil, nil
}

// put writes the attestation below a profile.
func (e *edit) put(profile ast.Node, a tool.Attestation) error {
	permissions, _ := member(profile, "permissions")
	if permissions == nil {
		return e.add(profile, func(flow bool, indent int) []string {
			if flow {
				return []string{"permissions: {attestation: {", flowOf(a), "}}"}
			}
			return append([]string{pad(indent) + "permissions:", pad(indent+2) + "attestation:"}, blockOf(a, indent+4)...)
		})
	}
	old, oldKey := member(permissions, "attestation")
	if old == nil {
		return e.add(permissions, func(flow bool, indent int) []string {
			if flow {
				return []string{"attestation: {", flowOf(a), "}"}
			}
			return append([]string{pad(indent) + "attestation:"}, blockOf(a, indent+2)...)
		})
	}
	if m, ok := old.(*ast.MappingNode); ok && m.IsFlowStyle {
		return e.replaceFlow(m, "{"+flowOf(a)+"}")
	}
	column := oldKey.Position.Column
	first, last := oldKey.Position.Line, e.blockEnd(oldKey.Position.Line, column)
	for _, line := range e.lines[first-1 : last] {
		if strings.Contains(line, "#") {
			return fmt.Errorf("the old one holds a comment in line %d to %d, which would be lost; move it above", first, last)
		}
	}
	lines := append([]string{pad(column-1) + "attestation:"}, blockOf(a, column+1)...)
	e.lines = slices.Replace(e.lines, first-1, last, e.ended(lines)...)
	return nil
}

// add puts a key at the end of a mapping.
func (e *edit) add(to ast.Node, text func(flow bool, indent int) []string) error {
	m, ok := to.(*ast.MappingNode)
	switch {
	case !ok:
		return errors.New("it belongs to what is no mapping")
	case m.IsFlowStyle:
		at := m.End.Position
		joint := ", "
		if len(m.Values) == 0 {
			joint = ""
		}
		return e.insert(at.Line, at.Column, joint+strings.Join(text(true, 0), ""))
	}
	key := m.Values[0].Key.GetToken().Position
	last := e.blockEnd(m.Values[len(m.Values)-1].Key.GetToken().Position.Line, key.Column)
	if !strings.HasSuffix(e.lines[last-1], "\n") {
		e.lines[last-1] += e.eol
	}
	e.lines = slices.Insert(e.lines, last, e.ended(text(false, key.Column-1))...)
	return nil
}

func (e *edit) ended(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l + e.eol
	}
	return out
}

// blockEnd is the last line of the value of a key that stands at a column of a line, all from 1: what is indented deeper.
func (e *edit) blockEnd(line, column int) int {
	last := line
	for n := line + 1; n <= len(e.lines); n++ {
		text := strings.TrimRight(e.lines[n-1], " \r\n")
		indent := len(text) - len(strings.TrimLeft(text, " "))
		switch {
		case text == "":
		case indent >= column:
			last = n
		case text[indent] != '#':
			// A list may stand below its key without being indented.
			if indent == column-1 && strings.HasPrefix(text[indent:], "- ") {
				last = n
				continue
			}
			return last
		}
	}
	return last
}

// insert puts text before a column of a line.
func (e *edit) insert(line, column int, text string) error {
	runes := []rune(e.lines[line-1])
	if column < 1 || column > len(runes) || runes[column-1] != '}' {
		return errors.New("its place is not found")
	}
	e.lines[line-1] = string(runes[:column-1]) + text + string(runes[column-1:])
	return nil
}

// replaceFlow puts text in place of a mapping in braces.
func (e *edit) replaceFlow(m *ast.MappingNode, text string) error {
	from, to := m.Start.Position, m.End.Position
	first, last := []rune(e.lines[from.Line-1]), []rune(e.lines[to.Line-1])
	if from.Column > len(first) || first[from.Column-1] != '{' || to.Column > len(last) || last[to.Column-1] != '}' {
		return errors.New("its place is not found")
	}
	for n := from.Line; n < to.Line; n++ {
		if strings.Contains(e.lines[n-1], "#") {
			return fmt.Errorf("the old one holds a comment in line %d to %d, which would be lost; move it above", from.Line, to.Line)
		}
	}
	joined := string(first[:from.Column-1]) + text + string(last[to.Column:])
	e.lines = slices.Replace(e.lines, from.Line-1, to.Line, joined)
	return nil
}

func pad(n int) string { return strings.Repeat(" ", n) }

// AttestationLines are an attestation as it stands below its key, in YAML.
func AttestationLines(a tool.Attestation) []string { return blockOf(a, 0) }

func blockOf(a tool.Attestation, indent int) []string {
	out := []string{pad(indent) + fmt.Sprintf("toolsetHash: %q", a.ToolsetHash), pad(indent) + fmt.Sprintf("authorityHash: %q", a.AuthorityHash)}
	if len(a.Tools) == 0 {
		return append(out, pad(indent)+"tools: {}")
	}
	out = append(out, pad(indent)+"tools:")
	for _, name := range slices.Sorted(maps.Keys(a.Tools)) {
		out = append(out, pad(indent+2)+attested(name, a.Tools[name]))
	}
	return out
}

func flowOf(a tool.Attestation) string {
	var tools []string
	for _, name := range slices.Sorted(maps.Keys(a.Tools)) {
		tools = append(tools, attested(name, a.Tools[name]))
	}
	return fmt.Sprintf("toolsetHash: %q, authorityHash: %q, tools: {%s}", a.ToolsetHash, a.AuthorityHash, strings.Join(tools, ", "))
}

// attested is one tool. A name such as 1 or true would be no text in YAML, and neither would a hash of digits alone.
func attested(name string, t tool.Attested) string {
	return fmt.Sprintf("%q: {contract: %q, authority: %q}", name, t.Contract, t.Authority)
}
