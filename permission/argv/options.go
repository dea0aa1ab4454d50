package argv

import "strings"

// options says which options a program takes before the operand that matters. Each long option is written
// whole, without its dashes.
type options struct {
	flags    string // short options without an argument
	args     string // short options with one, attached or the next word
	attached string // short options with one only if it is attached
	long     []string
	longArgs []string // long options with an argument, attached by = or the next word
	digits   bool     // -10 is an option (nice)
}

// skip returns the words after the options. It reports false if it cannot tell where that is: an unknown
// option, or a word that a shell expands.
func (o options) skip(words []word) (rest []word, ok bool) {
	rest, _, ok = o.scan(words)
	return rest, ok
}

// found is an option with its argument, as scanned.
type found struct {
	name string // a letter, or a long name
	arg  string
	dyn  bool // the argument is expanded by a shell
}

// scan is skip, with the options it met.
func (o options) scan(words []word) (rest []word, opts []found, ok bool) {
	for len(words) > 0 {
		w := &words[0]
		if w.dyn {
			return words, opts, startsPlainly(w)
		}
		text := w.text
		if text == "--" {
			return words[1:], opts, true
		}
		if len(text) < 2 || text[0] != '-' {
			return words, opts, true
		}
		words = words[1:]
		var need bool
		var f []found
		switch {
		case strings.HasPrefix(text, "--"):
			f, need, ok = o.longOption(text[2:])
		case o.digits && numeric(text[1:]):
			ok = true
		default:
			f, need, ok = o.cluster(text[1:])
		}
		if !ok {
			return nil, opts, false
		}
		if need {
			if len(words) == 0 || words[0].gap || words[0].many {
				return nil, opts, false
			}
			f[len(f)-1].arg, f[len(f)-1].dyn = words[0].text, words[0].dyn
			words = words[1:]
		}
		opts = append(opts, f...)
	}
	return nil, opts, true
}

// startsPlainly reports whether w, which a shell expands, is no option whatever it becomes.
func startsPlainly(w *word) bool {
	return len(w.shape) > 0 && w.shape[0].kind == exactly && w.shape[0].text[0] != '-'
}

// longOption reads --text; need says that the next word is its argument.
func (o options) longOption(text string) (f []found, need, ok bool) {
	name, arg, has := strings.Cut(text, "=")
	for _, known := range o.longArgs {
		if name == known {
			return []found{{name: name, arg: arg}}, !has, true
		}
	}
	for _, known := range o.long {
		if name == known {
			return []found{{name: name, arg: arg}}, false, true
		}
	}
	if o.digits && numeric(text) {
		return nil, false, true
	}
	return nil, false, false
}

// cluster reads the letters of one word of short options.
func (o options) cluster(text string) (f []found, need, ok bool) {
	for i := range len(text) {
		c := text[i]
		rest := text[i+1:]
		switch {
		case strings.IndexByte(o.flags, c) >= 0:
			f = append(f, found{name: string(rune(c))})
		case strings.IndexByte(o.attached, c) >= 0:
			return append(f, found{name: string(rune(c)), arg: rest}), false, true
		case strings.IndexByte(o.args, c) >= 0:
			return append(f, found{name: string(rune(c)), arg: rest}), rest == "", true
		default:
			return nil, false, false
		}
	}
	return f, false, true
}

func numeric(s string) bool {
	s = strings.TrimLeft(s, "+-")
	if s == "" {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func (f found) is(names ...string) bool {
	for _, n := range names {
		if f.name == n {
			return true
		}
	}
	return false
}
