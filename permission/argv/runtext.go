package argv

import (
	"slices"
	"strings"
)

// findActions adds the views on the programs that find runs: -exec and its like, up to ; or +.
func (s *segment) findActions(args []word, open bool, depth int) {
	end := lastEnd(args)
	for i := 0; i < len(args); i++ {
		w := &args[i]
		if w.dyn {
			if w.gap || w.many || i < end {
				s.doubt("expansion that may become an action of find")
			}
			continue
		}
		switch w.text {
		case "-exec", "-execdir", "-ok", "-okdir":
		default:
			continue
		}
		stop := i + 1
		for stop < len(args) && (args[stop].dyn || args[stop].text != ";" && (args[stop].text != "+" || args[stop-1].text != "{}")) {
			stop++
		}
		// With a + many names take the place of {}, but only there, and a name never is an option of find.
		s.program(replaced(args[i+1:stop], "{}"), stop < len(args) && args[stop].text == "+", depth)
		i = stop
	}
	if open {
		s.doubt("arguments of find that are not known")
	}
}

// lastEnd returns the place of the last word that may end an -exec, or -1.
func lastEnd(words []word) int {
	for i := range slices.Backward(words) {
		if w := &words[i]; !w.dyn && (w.text == ";" || w.text == "+") {
			return i
		}
	}
	return -1
}

// shell adds the views on the -c text of a shell.
func (s *segment) shell(name string, args []word, open bool, depth int) {
	reads := false // it takes its text from an argument
	for len(args) > 0 {
		w := args[0]
		if w.dyn && !startsPlainly(&w) {
			s.doubt(unknownOption(name))
			return
		}
		// A + turns an option off and reads the same way. Options go on after -c: the text is the first operand.
		isOption := len(w.text) > 0 && (w.text[0] == '-' || w.text[0] == '+')
		if !isOption {
			break
		}
		args = args[1:]
		if w.text == "--" || w.text == "-" {
			break
		}
		command, taken, ok := shellOption(w.text)
		if !ok || taken > len(args) || anySplit(args[:taken]) {
			s.doubt(unknownOption(name))
			return
		}
		reads = reads || command
		args = args[taken:]
	}
	switch {
	case len(args) == 0 && open:
		s.doubt("text of " + name + " that is not known")
	case len(args) > 0 && reads:
		s.runText(name, args[:1], depth)
	}
}

// shellOption reads one word of options of a shell: whether it holds -c, and how many of the next words belong
// to it. Each o in a cluster takes a word of its own and the cluster goes on.
func shellOption(text string) (command bool, taken int, ok bool) {
	if strings.HasPrefix(text, "--") {
		_, need, ok := shellOptions.longOption(text[2:])
		if need {
			taken = 1
		}
		return false, taken, ok
	}
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == 'c':
			command = true
		case strings.IndexByte(shellOptions.args, c) >= 0:
			taken++
		case strings.IndexByte(shellOptions.flags, c) < 0:
			return false, 0, false
		}
	}
	return command, taken, true
}

func anySplit(words []word) bool {
	for i := range words {
		if words[i].gap || words[i].many {
			return true
		}
	}
	return false
}

// runText adds the views on words joined by blanks and run as shell text.
func (s *segment) runText(name string, words []word, depth int) {
	if depth > maxWrappers {
		s.doubt("text that runs text too many times over")
		return
	}
	texts := make([]string, len(words))
	for i := range words {
		if words[i].dyn {
			s.doubt("text of " + name + " that is not known")
			return
		}
		texts[i] = words[i].text
	}
	if name == "eval" && len(texts) > 0 && texts[0] == "--" {
		texts = texts[1:]
	}
	text := strings.Join(texts, " ")
	if strings.TrimSpace(text) == "" {
		return
	}
	inner := lexNested(text, depth+1)
	for i := range inner.segments {
		n := &inner.segments[i]
		if n.asks != "" {
			s.doubt(n.asks + " in the text of " + name)
		} else {
			s.views = append(s.views, n.views...)
		}
		if n.unsure != "" {
			s.doubt(n.unsure)
		}
	}
}

// trap adds the views on the action of trap.
func (s *segment) trap(args []word, depth int) {
	rest, opts, ok := options{flags: "lpP"}.scan(args)
	switch {
	case !ok:
		s.doubt(unknownOption("trap"))
	case len(opts) > 0 || len(rest) < 2:
	default:
		s.runText("trap", rest[:1], depth)
	}
}

// alias adds the views on the text that each alias stands for. Where a shell expands it, more words follow.
func (s *segment) alias(args []word, depth int) {
	for i := range args {
		w := &args[i]
		if w.dyn {
			s.doubt("text of alias that is not known")
			continue
		}
		_, text, ok := strings.Cut(w.text, "=")
		if !ok {
			continue
		}
		words, ok := aliasWords(text)
		if !ok {
			s.runText("alias", []word{literal(text)}, depth)
			s.doubt("text of alias that is no list of words")
			continue
		}
		s.program(words, true, depth)
	}
}

// aliasWords returns the words of an alias. It reports false for text in which more than arguments may follow
// what is there: an operator, an assignment, a keyword, or a blank after which the next word is an alias too.
func aliasWords(text string) ([]word, bool) {
	if refusal(text) != "" || strings.TrimRight(text, " \t\n\\") != text {
		return nil, false
	}
	parts, err := patternWords(text)
	if err != nil || len(parts) == 0 {
		return nil, false
	}
	words := make([]word, len(parts))
	for i, p := range parts {
		words[i] = evalWord(text, p)
		if words[i].asks != "" || words[i].unsure != "" || words[i].alt != "" {
			return nil, false
		}
	}
	first := words[0].text
	return words, !words[0].dyn && !strings.Contains(first, "=") && !reserved[first] && first != "time"
}
