package argv

import (
	"slices"
	"strings"
)

// Bash runs $(…) out of text that it takes for a name or expands once more, whatever quotes it stood in: subscripts, and
// the values of some variables. Other variables change which program a name runs.

const (
	evaluatedSubscript = "subscript that bash evaluates"
	evaluatedName      = "expansion that bash may take for a name and evaluate"
	specialVariable    = "variable that changes what bash runs"
)

// evaluatesNames are the builtins in which bash runs $(…) out of the subscript of a quoted name.
var evaluatesNames = map[string]bool{
	"test": true, "[": true, "printf": true, "read": true, "unset": true, "mapfile": true, "readarray": true,
	"getopts": true, "wait": true, "declare": true, "local": true, "typeset": true,
}

// declares are the builtins whose arguments are assignments.
var declares = map[string]bool{"export": true, "readonly": true, "declare": true, "local": true, "typeset": true}

func subscript(name string, args []word) bool {
	for i := range args {
		if name == "printf" && (i == 0 || args[i-1].text != "-v") && !strings.HasPrefix(args[i].text, "-v") {
			continue
		}
		if _, rest, ok := strings.Cut(args[i].text, "["); ok && strings.ContainsAny(rest, "$`") {
			return true
		}
	}
	return false
}

// computedName reports whether a shell expands a word that the builtin called name takes for the name of a variable:
// it may become a[$(…)].
func computedName(name string, args []word) bool {
	if !evaluatesNames[name] && !declares[name] {
		return false
	}
	for i := range args {
		w := &args[i]
		if !w.dyn {
			continue
		}
		before := ""
		if i > 0 && !args[i-1].dyn && strings.HasPrefix(args[i-1].text, "-") {
			before = args[i-1].text
		}
		switch {
		case name == "test" || name == "[":
			if before == "-v" || before == "-R" {
				return true
			}
		case name == "printf":
			if before == "-v" || strings.HasPrefix(w.text, "-v") {
				return true
			}
		case name == "wait":
			if strings.HasSuffix(before, "p") {
				return true
			}
		case name == "getopts":
			if i == 1 || i == 0 && (w.gap || w.many) {
				return true
			}
		case declares[name]:
			if !startsWithName(w) && w.never == "" {
				return true
			}
		case before == "" || !takesWord(before, optionWords[name]):
			return true // read, unset, mapfile
		}
	}
	return false
}

// optionWords are the options of a builtin which takes names, behind which a word that is none may stand.
var optionWords = map[string]string{"read": "dinNptu", "mapfile": "dnOsucC", "readarray": "dnOsucC"}

func takesWord(option, letters string) bool {
	return strings.IndexByte(letters, option[len(option)-1]) >= 0
}

// mayBeOption reports whether an expansion in args may become the option -v of test or printf together with a name.
func mayBeOption(name string, args []word) bool {
	switch name {
	case "printf":
		return len(args) > 0 && args[0].dyn && !startsPlainly(&args[0])
	case "test", "[":
	default:
		return false
	}
	for i := range args {
		w := &args[i]
		switch {
		case !w.dyn, slices.Contains([]string{"$?", "$#", "$$", "$!"}, w.text):
		case w.gap, w.many && !startsPlainly(w), i+1 < len(args) && args[i+1].dyn && !startsPlainly(w):
			return true
		}
	}
	return false
}

// special reports whether text names a variable with which bash finds programs or whose value it expands.
func special(text string) bool {
	return strings.Contains(text, "BASH_ALIASES") || strings.Contains(text, "BASH_CMDS") || strings.Contains(text, "PS4")
}

// special refuses the assignment of a special variable, and what may become the value of an evaluated name. The command
// word is the one at first.
func (s *segment) special(first int) {
	assigns := first < len(s.words) && (evaluatesNames[s.words[first].text] || declares[s.words[first].text])
	for i := range s.words {
		w := &s.words[i]
		name, value, assigned := strings.Cut(w.text, "=")
		if len(w.shape) > 0 {
			name += w.shape[0].text // the name without the line continuations that may be in it
		}
		switch {
		case (assigned || assigns) && (special(name) || assigns && special(w.text)), w.dyn && strings.Contains(w.text, "${") && special(w.text):
			s.refuse(specialVariable)
			s.doubt(specialVariable)
		case assigned && (i < first || assigns) && quotedSubscript(w, value):
			s.doubt(evaluatedSubscript)
		}
	}
}

// quotedSubscript reports whether a substitution that is only text stands behind a bracket of w, as in a[$(…)].
func quotedSubscript(w *word, value string) bool {
	if w.dyn {
		var b strings.Builder
		for _, p := range w.shape {
			if p.kind == exactly {
				b.WriteString(p.text)
			}
		}
		value = b.String()
	}
	_, rest, ok := strings.Cut(value, "[")
	return ok && (strings.Contains(rest, "$(") || strings.Contains(rest, "${") || strings.Contains(rest, "`"))
}
