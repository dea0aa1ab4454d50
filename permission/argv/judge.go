package argv

import (
	"slices"
	"strings"
)

// judgeWords finds what the words of a segment refuse, and builds the views on them.
func (s *segment) judgeWords(depth int) {
	for i := range s.words {
		w := &s.words[i]
		s.refuse(w.never)
		if s.asks == "" {
			s.asks = w.asks
		}
		if w.unsure != "" {
			s.doubt(w.unsure)
		}
	}
	if len(s.words) == 0 {
		s.refuse("no command")
		return
	}
	first := 0 // the command word
	for first < len(s.words) && s.words[first].spelled {
		first++
	}
	args := s.words[first:]
	s.timed(first, depth)
	for i := range first {
		// In front of a command no shell splits an assignment, nor makes names of it.
		s.words[i].gap, s.words[i].many = false, false
	}
	// A pattern may name some of the keywords and assignments in front, so each rest of them is a view.
	dyn := slices.ContainsFunc(args, func(w word) bool { return w.dyn })
	for i := first - 1; i >= 0; i-- {
		dyn = dyn || s.words[i].dyn
		s.views = append(s.views, view{words: s.words[i:], dyn: dyn})
	}
	s.special(first)
	if len(args) == 0 {
		return
	}
	if cmd := &args[0]; cmd.dyn && !cmd.tilde {
		s.refuse("expansion in the command word")
	} else if cmd.dyn {
		cmd.spelled = true
	}
	s.builtin(args)
	s.program(args, false, depth)
	if first > 0 && args[0].text == "--" {
		// For bash it ends the options of time, and more keywords may follow.
		s.program(args[1:], false, depth)
		s.doubt("-- after a keyword")
		s.refuse("-- after a keyword")
	}
}

// timed adds the views of dash, for which time is a program and what follows are its arguments.
func (s *segment) timed(first, depth int) {
	at := slices.IndexFunc(s.words[:first], func(w word) bool { return w.text == "time" })
	if at >= 0 {
		s.program(slices.Clone(s.words[at:]), false, depth)
	}
}

// builtin refuses the commands that run, define or evaluate text, whatever the pattern says of their arguments.
func (s *segment) builtin(args []word) {
	name := args[0].text
	switch {
	case args[0].dyn:
	case reserved[name]:
		// The parser takes a keyword for a program where the shells may not.
		s.asks = "reserved word " + name
	case name == "let":
		s.asks = "let"
	case evaluatesNames[name] && subscript(name, args[1:]):
		s.asks = evaluatedSubscript
	case computedName(name, args[1:]), mayBeOption(name, args[1:]):
		s.refuse(evaluatedName)
	case neverAllowed[name]:
		s.refuse(name)
	case hasOption(name, args[1:]):
		s.refuse("option of " + name + " that runs text")
	}
}

var reserved = map[string]bool{
	"!": true, "{": true, "}": true, "[[": true, "]]": true, "case": true, "coproc": true, "do": true, "done": true,
	"elif": true, "else": true, "esac": true, "fi": true, "for": true, "function": true, "if": true,
	"select": true, "then": true, "until": true, "while": true,
}

// neverAllowed are the builtins that run text, change what a name runs, or exist in bash alone.
var neverAllowed = map[string]bool{
	"eval": true, ".": true, "source": true, "trap": true, "alias": true, "builtin": true, "command": true,
	"exec": true, "declare": true, "local": true, "typeset": true, "nameref": true,
	"compgen": true, "complete": true,
}

// textOptions are the options with which a builtin of bash runs words or text, or changes what a name runs.
var textOptions = map[string]string{"mapfile": "C", "readarray": "C", "jobs": "x", "hash": "p", "bind": "x", "enable": "f"}

// hasOption reports whether one of args is, or may become, such an option of the builtin called name.
func hasOption(name string, args []word) bool {
	letters, ok := textOptions[name]
	return ok && slices.ContainsFunc(args, func(w word) bool {
		if w.dyn {
			return !startsPlainly(&w)
		}
		return strings.HasPrefix(w.text, "-") && strings.Contains(w.text, letters)
	})
}

// verdict is what the tables say of one segment.
type verdict struct {
	outcome   Outcome
	table     string
	index     int
	pattern   string
	construct string
}

func spoken(o Outcome, name string, t *Table, i int, construct string) verdict {
	return verdict{o, name, i, t.patterns[i].text, construct}
}

func unspoken(o Outcome, construct string) verdict {
	return verdict{outcome: o, index: -1, construct: construct}
}

const mayExpand = "expansion that may become what the pattern names"

// restrict judges s by deny and ask patterns; an outcome of None means that they have nothing against it.
func (s *segment) restrict(deny, ask *Table) verdict {
	if s.asks != "" {
		return unspoken(Ask, s.asks)
	}
	if i := deny.find(s.views, false); i >= 0 {
		return spoken(Deny, TableDeny, deny, i, "")
	}
	if i := ask.find(s.views, false); i >= 0 {
		return spoken(Ask, TableAsk, ask, i, "")
	}
	if i := deny.find(s.views, true); i >= 0 {
		return spoken(Ask, TableDeny, deny, i, mayExpand)
	}
	if i := ask.find(s.views, true); i >= 0 {
		return spoken(Ask, TableAsk, ask, i, mayExpand)
	}
	if s.unsure != "" && deny.Len()+ask.Len() > 0 {
		return unspoken(Ask, s.unsure)
	}
	return unspoken(None, "")
}

// permit judges a segment that deny and ask patterns have nothing against.
func (s *segment) permit(allow *Table) verdict {
	if s.never != "" {
		return unspoken(Ask, s.never)
	}
	if i := allow.cover(s.words); i >= 0 {
		return spoken(Allow, TableAllow, allow, i, s.note)
	}
	return unspoken(Ask, "")
}
