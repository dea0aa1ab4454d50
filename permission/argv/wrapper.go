package argv

import (
	"maps"
	"slices"
	"strings"
)

// maxWrappers bounds how many programs may stand one behind the other, and how deep text may hold text.
const maxWrappers = 16

// wrapper finds the program that words, an argument list without its command word, runs.
type wrapper struct {
	options  options
	operands int  // how many words stand between the options and the program
	assigns  bool // NAME=value words may stand before the program
}

// wrappers are the programs that run the rest of their own arguments.
var wrappers = map[string]wrapper{
	"sudo": {assigns: true, options: options{
		flags: "ABbEeHiKklnPSsVv", args: "CDghpRrTtUu",
		long: []string{"askpass", "background", "bell", "edit", "help", "list", "login", "non-interactive",
			"preserve-env", "preserve-groups", "remove-timestamp", "reset-timestamp", "set-home", "shell", "stdin",
			"validate", "version"},
		longArgs: []string{"chdir", "chroot", "close-from", "command-timeout", "group", "host", "other-user", "prompt",
			"role", "type", "user"}}},
	"doas": {options: options{flags: "Lns", args: "aCu"}},
	"timeout": {operands: 1, options: options{flags: "fpv", args: "ks",
		long: []string{"foreground", "preserve-status", "verbose", "help", "version"}, longArgs: []string{"kill-after", "signal"}}},
	"nice":  {options: options{args: "n", digits: true, long: []string{"help", "version"}, longArgs: []string{"adjustment"}}},
	"nohup": {options: options{long: []string{"help", "version"}}},
	"time": {options: options{flags: "apqvV", args: "fo",
		long: []string{"append", "portability", "quiet", "verbose", "help", "version"}, longArgs: []string{"format", "output"}}},
	"builtin": {},
	"exec":    {options: options{flags: "cl", args: "a"}},
}

var (
	commandOptions = options{flags: "pvV"}
	envOptions     = options{
		flags: "0iv", args: "aCPSu",
		long: []string{"ignore-environment", "null", "debug", "help", "version", "block-signal", "default-signal",
			"ignore-signal", "list-signal-handling"},
		longArgs: []string{"argv0", "chdir", "split-string", "unset"}}
	xargsOptions = options{
		flags: "0oprtx", args: "adEILnPRSs", attached: "eil",
		long: []string{"exit", "interactive", "no-run-if-empty", "null", "open-tty", "show-limits", "verbose", "help", "version",
			"eof", "replace", "max-lines"},
		longArgs: []string{"arg-file", "delimiter", "max-args", "max-chars", "max-procs", "process-slot-var"}}
	shellOptions = options{
		flags: "abcefhiklmnprstuvxBCDEHPTqVyGNXZFILUw", args: "oO", long: []string{"debug", "debugger", "dump-po-strings",
			"dump-strings", "help", "login", "noediting", "noprofile", "norc", "posix", "pretty-print", "restricted", "verbose",
			"version"},
		longArgs: []string{"init-file", "rcfile"}}
)

var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "ash": true, "ksh": true, "mksh": true, "zsh": true, "rbash": true}

// runners are the names of all programs that are looked behind.
var runners = slices.Concat([]string{"alias", "command", "compgen", "complete", "env", "eval", "find", "let", "trap", "xargs"},
	slices.Sorted(maps.Keys(wrappers)), slices.Sorted(maps.Keys(shells)), slices.Sorted(maps.Keys(textOptions)))

// program adds the views on words as the argument list of a program: as they stand, under the base name of the
// program's path, and the programs that it runs in turn. With open, more words may follow.
func (s *segment) program(words []word, open bool, depth int) {
	if len(words) == 0 {
		if open {
			s.views = append(s.views, newView(nil, true))
		}
		return
	}
	if depth > maxWrappers {
		s.doubt("too many programs one behind the other")
		return
	}
	v := newView(words, open)
	s.views = append(s.views, v)
	cmd := &words[0]
	if base, ok := baseName(cmd); ok {
		v.base = &base
		s.views = append(s.views, v)
		cmd = &base
	}
	if cmd.dyn {
		if mayWrap(cmd) {
			s.doubt("expansion that may become a program which runs others")
		}
		return
	}
	s.behind(cmd.text, words[1:], open, depth+1)
}

// mayWrap reports whether w may become the name of a program that [segment.behind] looks behind.
func mayWrap(w *word) bool {
	return slices.ContainsFunc(runners, w.mayStart)
}

// doubt records that deny and ask patterns may have missed a program.
func (s *segment) doubt(why string) {
	if s.unsure == "" {
		s.unsure = why
	}
}

func unknownOption(name string) string { return "options of " + name + " that cannot be read" }

// baseName returns the word behind the last slash of w.
func baseName(w *word) (word, bool) {
	if !w.dyn {
		i := strings.LastIndexByte(w.text, '/')
		if i < 0 || i == len(w.text)-1 {
			return word{}, false
		}
		return literal(w.text[i+1:]), true
	}
	for i := len(w.shape) - 1; i >= 0; i-- {
		p := w.shape[i]
		at := strings.LastIndexByte(p.text, '/')
		if p.kind != exactly || at < 0 {
			continue
		}
		tail := p.text[at+1:]
		if i == len(w.shape)-1 && !w.gap && !w.many {
			return literal(tail), tail != ""
		}
		var shape []piece
		if tail != "" {
			shape = append(shape, piece{exactly, tail})
		}
		shape = append(shape, w.shape[i+1:]...)
		return word{text: w.text, dyn: true, shape: shape}, true
	}
	return word{}, false
}

// behind adds the views on what the program called name runs with args.
func (s *segment) behind(name string, args []word, open bool, depth int) {
	if slices.Contains(runners, name) && slices.ContainsFunc(args, func(w word) bool { return w.alt != "" }) {
		s.doubt("quotes that bash and dash read differently")
	}
	if open && slices.Contains([]string{"alias", "eval", "trap"}, name) {
		s.doubt("text of " + name + " that is not known")
	}
	if w, ok := wrappers[name]; ok {
		s.wrapped(name, w, args, open, depth)
		return
	}
	if shells[name] {
		s.shell(name, args, open, depth)
		return
	}
	switch {
	case name == "let", name == "compgen", name == "complete":
		s.doubt(name)
	case hasOption(name, args):
		s.doubt("option of " + name + " that runs text")
	case evaluatesNames[name] && subscript(name, args):
		s.doubt(evaluatedSubscript)
	case computedName(name, args):
		s.doubt(evaluatedName)
	}
	switch name {
	case "command":
		rest, opts, ok := commandOptions.scan(args)
		if !ok {
			s.doubt(unknownOption(name))
			return
		}
		for _, o := range opts {
			if o.is("v", "V") {
				return // it tells where the program is
			}
		}
		s.program(rest, open, depth)
	case "env":
		s.env(args, open, depth)
	case "xargs":
		s.xargs(args, depth)
	case "find":
		s.findActions(args, open, depth)
	case "eval":
		s.runText(name, args, depth)
	case "trap":
		s.trap(args, depth)
	case "alias":
		s.alias(args, depth)
	}
}

func (s *segment) wrapped(name string, w wrapper, args []word, open bool, depth int) {
	rest, ok := w.options.skip(args)
	for range w.operands {
		if !ok || len(rest) == 0 || rest[0].dyn {
			ok = ok && len(rest) == 0 && !open
			break
		}
		rest = rest[1:]
	}
	for before := 0; ok && w.assigns && len(rest) != before; {
		before = len(rest)
		if rest, ok = skipAssigns(rest); ok && len(rest) != before {
			rest, ok = w.options.skip(rest) // more of them may follow
		}
	}
	if !ok {
		s.doubt(unknownOption(name))
		return
	}
	s.program(rest, open, depth)
}

// skipAssigns drops leading NAME=value words.
func skipAssigns(words []word) ([]word, bool) {
	for len(words) > 0 {
		w := &words[0]
		switch {
		case !w.dyn && strings.IndexByte(w.text, '=') <= 0:
			return words, true
		case w.gap || w.many:
			return nil, false
		case w.dyn && !startsWithName(w):
			return nil, false
		}
		words = words[1:]
	}
	return nil, true
}

func startsWithName(w *word) bool {
	return len(w.shape) > 0 && w.shape[0].kind == exactly && strings.IndexByte(w.shape[0].text, '=') > 0
}

func (s *segment) env(args []word, open bool, depth int) {
	rest, opts, ok := envOptions.scan(args)
	if !ok {
		s.doubt(unknownOption("env"))
		return
	}
	if len(rest) > 0 && rest[0].text == "-" && !rest[0].dyn {
		rest = rest[1:]
	}
	for i, o := range opts {
		if !o.is("S", "split-string") {
			continue
		}
		if o.dyn || i < len(opts)-1 || depth > maxWrappers || strings.ContainsAny(o.arg, "\\'\"$#") {
			s.doubt("env -S with quotes, variables or more options")
			return
		}
		var split []word
		for _, f := range strings.Fields(o.arg) {
			split = append(split, literal(f))
		}
		// The text takes the place of the option, so it may itself hold options.
		s.env(append(split, rest...), open, depth+1)
		return
	}
	if rest, ok = skipAssigns(rest); !ok {
		s.doubt(unknownOption("env"))
		return
	}
	s.program(rest, open, depth)
}

func (s *segment) xargs(args []word, depth int) {
	rest, opts, ok := xargsOptions.scan(args)
	if !ok {
		s.doubt(unknownOption("xargs"))
		return
	}
	if len(rest) == 0 {
		return // it runs echo
	}
	mark, counts := "", false
	for _, o := range opts {
		counts = counts || o.is("n", "L", "l", "max-args", "max-lines") // the last of these and -I wins
		if o.is("I", "i", "replace") {
			if mark = o.arg; mark == "" {
				mark = "{}"
			}
			if o.dyn {
				s.doubt(unknownOption("xargs"))
				return
			}
		}
	}
	if mark == "" {
		s.program(rest, true, depth)
		return
	}
	s.program(replaced(rest, mark), counts, depth)
}

// replaced returns words with mark standing for any text.
func replaced(words []word, mark string) []word {
	out := make([]word, len(words))
	for i, w := range words {
		if !strings.Contains(w.text, mark) {
			out[i] = w
			continue
		}
		out[i] = word{text: w.text, dyn: true, gap: w.gap, many: w.many}
		if w.dyn {
			out[i].shape = []piece{{kind: anyText}}
			if w.gap {
				out[i].shape[0].kind = anyCut
			}
			continue
		}
		for j, part := range strings.Split(w.text, mark) {
			if j > 0 {
				out[i].shape = append(out[i].shape, piece{kind: anyText})
			}
			if part != "" {
				out[i].shape = append(out[i].shape, piece{exactly, part})
			}
		}
	}
	return out
}
