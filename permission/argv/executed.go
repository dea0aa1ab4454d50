package argv

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// LexExecuted takes an argument list that a shell has expanded and is about to execute. Unlike [LexArgv] it refuses
// nothing for its looks or its length: nobody reads it before it runs, and a deny pattern must not lose sight of rm because
// an argument behind it is odd. Nobody can be asked either, so where it cannot tell which program the list runs, each of
// its arguments may be that program, and each that holds a blank may be shell text.
func LexExecuted(args []string) Command {
	if len(args) == 0 {
		return unread("", "no command")
	}
	seg := segment{text: quoteAll(args)}
	for _, arg := range args {
		seg.words = append(seg.words, literal(arg))
	}
	seg.executed(seg.words, 0)
	return Command{segments: []segment{seg}}
}

// Programs returns the argument lists of the programs that an executed argument list runs, for all that is known: its own,
// and those behind wrappers.
func Programs(args []string) [][]string {
	c := LexExecuted(args)
	var lists [][]string
	for _, s := range c.segments {
		for _, v := range s.views {
			if v.base != nil || len(v.words) == 0 || v.words[0].dyn {
				continue
			}
			list := make([]string, len(v.words))
			for i, w := range v.words {
				list[i] = w.text
			}
			lists = append(lists, list)
		}
	}
	return lists
}

// runsArguments are more programs that run what stands among their arguments. Which of them it is depends on options that
// are not read here.
var runsArguments = map[string]bool{
	"arch": true, "ash": true, "busybox": true, "bwrap": true, "caffeinate": true, "capsh": true, "catchsegv": true,
	"cgexec": true, "chpst": true, "chroot": true, "chrt": true, "cpulimit": true, "daemonize": true,
	"dbus-launch": true, "dbus-run-session": true, "dumb-init": true, "eatmydata": true, "entr": true, "envdir": true,
	"fakeroot": true, "faketime": true, "firejail": true, "fish": true, "flock": true, "gdb": true, "gosu": true,
	"hyperfine": true, "i386": true, "ionice": true, "linux32": true, "linux64": true, "ltrace": true, "nsenter": true,
	"numactl": true, "parallel": true, "perf": true, "pkexec": true, "prlimit": true, "proot": true, "proxychains": true,
	"pwsh": true, "rlwrap": true, "runcon": true, "runuser": true, "screen": true, "script": true, "sem": true,
	"setarch": true, "setpriv": true, "setsid": true, "setuidgid": true, "sg": true, "softlimit": true,
	"ssh-agent": true, "start-stop-daemon": true, "stdbuf": true, "strace": true, "su": true, "su-exec": true,
	"systemd-inhibit": true, "systemd-run": true, "taskset": true, "tini": true, "tmux": true, "torsocks": true,
	"toybox": true, "unbuffer": true, "unshare": true, "valgrind": true, "watch": true, "x86_64": true, "xvfb-run": true,
	"yash": true,
}

// maxTexts bounds how deep shell text may stand in the arguments of what shell text runs.
const maxTexts = 4

// executed adds the views on an argument list that is about to run.
func (s *segment) executed(words []word, depth int) {
	before := s.unsure
	s.unsure = ""
	s.program(words, false, 0)
	name := words[0].text[strings.LastIndexByte(words[0].text, '/')+1:]
	if s.unsure != "" || runsArguments[name] || strings.HasPrefix(name, "ld-") {
		for i := 1; i < len(words); i++ {
			s.suspect(words[i:])
			s.suspectText(&words[i], depth)
		}
		if depth == 0 { // last, so that they take no place among the Programs from what stands alone
			s.suspectAttached(words[1:])
		}
	}
	if before != "" {
		s.unsure = before
	}
}

// maxLetters bounds the letters of an option behind which its value may begin in the same word.
const maxLetters = 3

// attached returns what may be the value of an option in the same word: --command=rm, -crm, -qcrm.
func attached(option string) (values []string) {
	if strings.HasPrefix(option, "--") {
		if _, value, ok := strings.Cut(option, "="); ok && value != "" {
			values = append(values, value)
		}
		return values
	}
	for n := 2; n < len(option) && n <= 1+maxLetters && option[0] == '-'; n++ {
		values = append(values, option[n:])
	}
	return values
}

// suspectAttached adds the views on what may be values of options in the same word.
func (s *segment) suspectAttached(words []word) {
	for i := range words {
		for _, value := range attached(words[i].text) {
			w := []word{literal(value)}
			s.suspect(w)
			s.suspectText(&w[0], 0)
		}
	}
}

// suspect adds the views on words as if the first of them were a program.
func (s *segment) suspect(words []word) {
	v := view{words: words} // what expansions in them may become is not looked at: nobody can be asked
	s.views = append(s.views, v)
	if base, ok := baseName(&words[0]); ok {
		v.base = &base
		s.views = append(s.views, v)
	}
}

// suspectText adds the views on every command in w as shell text: also in substitutions, functions and here-documents.
func (s *segment) suspectText(w *word, depth int) {
	if w.dyn || depth >= maxTexts || !strings.ContainsAny(w.text, " \t\n;") {
		return
	}
	if len(w.text) > maxBytes || nesting(w.text) != "" {
		s.suspectPieces(w.text)
		return
	}
	for stmt, err := range syntax.NewParser(syntax.Variant(syntax.LangBash)).StmtsSeq(strings.NewReader(w.text)) {
		if err != nil {
			s.suspectPieces(w.text)
			return
		}
		syntax.Walk(stmt, func(n syntax.Node) bool {
			if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
				words := make([]word, len(c.Args))
				for i, a := range c.Args {
					words[i] = evalWord(w.text, a)
				}
				s.executed(words, depth+1)
			}
			return true
		})
	}
}

// suspectPieces adds the views on the pieces between operators of text that cannot be parsed.
func (s *segment) suspectPieces(text string) {
	for piece := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(";&|(){}<>`\n\r", r) }) {
		var words []word
		for field := range strings.FieldsSeq(piece) {
			field = strings.NewReplacer(`"`, "", `'`, "", `\`, "").Replace(field)
			if len(words) == 0 && (reserved[field] || strings.IndexByte(field, '=') > 0) {
				continue
			}
			words = append(words, literal(field))
		}
		if len(words) > 0 {
			s.suspect(words)
		}
	}
}
