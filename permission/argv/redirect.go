package argv

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// harmlessNote explains an allow in which a redirection was passed over.
const harmlessNote = "redirections to /dev/null and the standard streams do not count"

// redirects judges the redirections of a statement: asks if one holds a here-document or runs a command, never
// if one opens a file or is read differently by bash and dash, note if all that there are touch nothing.
func redirects(src string, rs []*syntax.Redirect) (asks, never, note string) {
	for _, r := range rs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			return "here-document", "", ""
		case syntax.WordHdoc:
			return "here-string", "", ""
		}
		target := evalWord(src, r.Word)
		if target.asks != "" {
			return target.asks, "", ""
		}
		if harmless(r, &target) {
			note = harmlessNote
		} else {
			never = "redirection"
		}
	}
	if never != "" {
		note = ""
	}
	return "", never, note
}

// harmless reports whether r duplicates one of the standard streams or opens /dev/null. Descriptors over 9 are
// arguments for dash, and &> is a background operator there.
func harmless(r *syntax.Redirect, target *word) bool {
	if target.dyn || target.never != "" {
		return false
	}
	if r.N != nil && r.N.Value != "0" && r.N.Value != "1" && r.N.Value != "2" {
		return false
	}
	switch r.Op {
	case syntax.DplIn, syntax.DplOut:
		return target.text == "0" || target.text == "1" || target.text == "2"
	case syntax.RdrOut, syntax.AppOut, syntax.RdrIn, syntax.RdrInOut, syntax.RdrClob:
		return target.text == "/dev/null"
	}
	return false
}

// readApart reports whether bash, dash and the parser find other words in a command, whose words end at end: a
// descriptor over 9 is an argument for dash, what follows &> is a command of its own there, and for bash >& -f
// closes a descriptor and has an argument f.
func readApart(src string, r *syntax.Redirect, end syntax.Pos) bool {
	if r.Op == syntax.DplIn || r.Op == syntax.DplOut {
		if lit, ok := r.Word.Parts[0].(*syntax.Lit); ok && strings.HasPrefix(lit.Value, "-") && r.Word.Lit() != "-" {
			return true
		}
		// Bash expands the word of >& twice, so that a quoted $(…) or one out of a variable runs.
		if target := evalWord(src, r.Word); target.dyn || strings.ContainsAny(target.text, "$`") {
			return true
		}
	}
	if r.N != nil && len(r.N.Value) > 1 {
		return true
	}
	return (r.Op == syntax.RdrAll || r.Op == syntax.AppAll) && end.Offset() > r.OpPos.Offset()
}
