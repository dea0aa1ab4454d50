package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// maxErrors is the number of errors that Check reports of one file.
const maxErrors = 20

// Check reads a file as Load does, for an editor or a reviewer: it goes on after an error and returns all that it finds,
// up to 20, in the order of the file. The file is nil if there is an error.
func Check(path string) (*File, []*fault.ConfigError) {
	data, err := read(path)
	if err != nil {
		var e *fault.ConfigError
		errors.As(err, &e) // read returns nothing else
		return nil, []*fault.ConfigError{e}
	}
	r := newReader(path)
	r.many = maxErrors
	f := r.document(data)
	if len(r.errs) == 0 {
		return f, nil
	}
	slices.SortStableFunc(r.errs, func(a, b *fault.ConfigError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return nil, r.errs
}

// anyRule and anyLine stand where there was something that cannot be used, so that what stands behind it is looked at.
var (
	anyRule = permission.Rule{Tool: permission.One("any")}
	anyLine = permission.Vetted{Tool: permission.One("any"), Argv: permission.One("any")}
)

// checkLayer checks a layer that was read, once for every error that is wanted.
func (r *reader) checkLayer(key string, l *permission.Layer) {
	for {
		err := l.Check(key)
		r.locate(err)
		var e *fault.ConfigError
		if r.many == 0 || r.err != nil || !errors.As(err, &e) {
			return
		}
		if !mend(l, strings.TrimPrefix(e.Key, key+".")) {
			return
		}
	}
}

// mend takes out of a layer what the key below it names.
func mend(l *permission.Layer, key string) bool {
	var i int
	switch {
	case scan(key, "deny[%d]", &i) && i < len(l.Deny):
		l.Deny[i] = anyRule
	case scan(key, "ask[%d]", &i) && i < len(l.Ask):
		l.Ask[i] = anyRule
	case scan(key, "vetted[%d]", &i) && i < len(l.Vetted):
		l.Vetted[i] = anyLine
	case key == "preset":
		l.Preset = ""
	case strings.HasPrefix(key, "approval") && l.Approval != nil:
		l.Approval = nil
	default:
		return false
	}
	return true
}

func scan(text, format string, i *int) bool {
	n, _ := fmt.Sscanf(text, format, i)
	return n == 1 && *i >= 0
}

// Warning is a finding of the linter with its place in the file.
type Warning struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	permission.Finding
}

// String prints `file:line:col: warning: key: message`.
func (w Warning) String() string {
	return fmt.Sprintf("%s:%d:%d: warning: %s: %s", w.File, w.Line, w.Column, w.Key, w.Message)
}

// Lint returns what a reviewer would ask about, in the order of the file. The tools are those that are known without a
// worker, and sets the names that stand for several of them.
func (f *File) Lint(tools []tool.Info, sets map[string][]string) []Warning {
	p := permission.LintPolicy{Engine: f.Engine, Tools: tools, Sets: sets, Servers: map[string]string{}}
	for name, s := range f.MCP {
		p.Servers[name] = s.PrefixOf(name)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Profiles)) {
		profile := f.Profiles[name]
		p.Profiles = append(p.Profiles, permission.LintProfile{Key: "profiles." + name, Layer: profile.Permissions,
			Tools: profile.Tools, Readonly: profile.Isolation.Kind == worktree.Readonly})
	}
	var out []Warning
	for _, finding := range permission.Lint(p) {
		at := f.source.nearest(finding.Key)
		out = append(out, Warning{File: f.Path, Line: max(at.line, 1), Column: max(at.column, 1), Finding: finding})
	}
	slices.SortStableFunc(out, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return out
}

// Size is what a policy holds.
type Size struct {
	Profiles int `json:"profiles"`
	// Rules and Vetted are lines of all layers, Tests the inline cases of the rules.
	Rules  int `json:"rules"`
	Vetted int `json:"vetted"`
	Tests  int `json:"tests"`
}

// Size counts.
func (f *File) Size() Size {
	s := Size{Profiles: len(f.Profiles)}
	s.add(f.Engine)
	for _, p := range f.Profiles {
		s.add(p.Permissions)
	}
	return s
}

func (s *Size) add(l permission.Layer) {
	s.Vetted += len(l.Vetted)
	for _, r := range slices.Concat(l.Deny, l.Ask) {
		s.Rules++
		if r.Tests != nil {
			s.Tests += len(r.Tests.Match.Values) + len(r.Tests.NotMatch.Values)
		}
	}
}
