package permission

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/assent-dev/assent/permission/argv"
)

// vettedLine looks at line i of the chain.
func (l *linter) vettedLine(c *lintChain, i int) {
	v := c.vetted[i]
	l.toolNames(v.place, v.line.Tool, true)
	for j, name := range v.line.Tool.Values {
		if by := l.plain(c.deny, len(c.deny), name, ""); by != "" {
			l.find(element(v.place+".tool", v.line.Tool, j), FindDead, "never allows: %s denies %s", by, name)
		}
	}
	for j, text := range v.line.Argv.Values {
		key := element(v.place+".argv", v.line.Argv, j)
		l.pattern(key, text)
		p, _ := argv.Compile(text) // checked by the caller
		if construct, never := l.neverAllowed(p); never {
			l.find(key, FindDead, "never allows: %s", construct)
		} else if why := runsPrograms(p); why != "" {
			l.find(key, FindRunsPrograms, "%s: %s", quoteFlow(text), why)
		}
		if by, denies := l.stoppedForAll(c, v.line.Tool, text); by != "" {
			word := "asks about it"
			if denies {
				word = "denies it"
			}
			l.find(key, FindDead, "never allows: %s %s", by, word)
		}
	}
	for _, name := range v.line.Tool.Values {
		t := c.table(argv.TableAllow, name)
		redundant := l.redundantAllowed(t)
		for j, line := range t.rules {
			if by := redundant[j]; by != "" && line == i {
				l.find(t.keys[j], FindShadowed, "is not needed: %s takes it in", by)
			}
		}
	}
}

// redundantAllowed is redundant for vetted patterns, found once.
func (l *linter) redundantAllowed(t *lintTable) map[int]string {
	if t.spare == nil {
		t.spare = l.redundant(t, firstAllowed)
	}
	return t.spare
}

func (l *linter) stoppedForAll(c *lintChain, names Strings, text string) (by string, denies bool) {
	for _, name := range names.Values {
		if by, denies = l.stopped(c, text, name, len(c.ask)); by == "" {
			return "", false
		}
	}
	return by, denies
}

// neverAllowed returns the construct because of which no command that p matches can be allowed.
func (l *linter) neverAllowed(p argv.Pattern) (construct string, never bool) {
	t := argv.NewTable(p)
	for _, command := range l.examples(p.String()) {
		r := command.Match(argv.Tables{Allow: t})
		if r.Outcome == argv.Allow {
			return "", false
		}
		construct = r.Construct
	}
	return construct, true
}

// dead finds a deny or ask pattern that no command meets for certain.
func (l *linter) dead(key, text string) {
	p, _ := argv.Compile(text) // checked by the caller
	t, construct := argv.NewTable(p), ""
	for _, command := range l.examples(text) {
		r := command.Chain(t, argv.Table{})
		if r.Outcome == argv.Deny {
			return
		}
		construct = r.Construct
	}
	l.find(key, FindDead, "matches no command for certain: %s", construct)
}

var (
	// starred is a word that looks like a prefix pattern of other tools.
	starred = regexp.MustCompile(`\A[A-Za-z0-9_:-]*[A-Za-z0-9_:-]\*+\z`)
	// quotedBlank is one word that holds blanks.
	quotedBlank = regexp.MustCompile(`\A(?s:'[^']*\s[^']*'|"[^"]*\s[^"]*")\z`)
)

// pattern finds words that say something else than they seem to.
func (l *linter) pattern(key, text string) {
	p, _ := argv.Compile(text) // checked by the caller
	words := p.Words()
	switch first := words[0]; {
	case strings.HasPrefix(first, "-"):
		l.find(key, FindPattern, "%s is a whole command that begins with an option; write a command in one pattern, such as \"rm -rf **\"", quoteFlow(text))
	case quotedBlank.MatchString(first):
		l.find(key, FindPattern, "%s is the name of a program with blanks in it, because of its quotes", first)
	}
	for _, w := range words {
		if w != "**" && starred.MatchString(w) {
			l.find(key, FindPattern, "%s is that very word: a wildcard is a * or a last ** that stands alone", w)
		}
	}
}

// literal finds a pattern with an option in it that another order or spelling of options gets round. Of a rule of
// another layer it finds what vetted lines of this one make of it.
func (l *linter) literal(c *lintChain, table string, r lintRule, j int) {
	text := r.rule.Argv.Values[j]
	p, _ := argv.Compile(text) // checked by the caller
	words := p.Words()
	at := slices.IndexFunc(words, func(w string) bool { return len(w) > 1 && w[0] == '-' && w != "--" })
	if at < 1 {
		if table == argv.TableDeny && r.own {
			l.narrow(c, r, j, words)
		}
		return
	}
	base := strings.Join(words[:at], " ") + " **"
	if by, _ := l.stoppedForAll(c, r.rule.Tool, base); by != "" {
		return
	}
	key := element(r.place+".argv", r.rule.Argv, j)
	for _, name := range r.rule.Tool.Values {
		if by := l.allowed(c.table(argv.TableAllow, name), base); by != "" {
			l.find(key, FindLiteral, "is literal, and %s lets every other order and spelling of the options run unasked; ask for %s, or deny it",
				by, quoteFlow(base))
			return
		}
	}
	if table == argv.TableDeny && r.own {
		l.find(key, FindLiteral, "is literal: the same options in another order or spelling are not denied; ask for %s, or deny it", quoteFlow(base))
	}
}

// narrow finds a deny pattern without options that one more word, or another spelling of the program's path, gets round.
func (l *linter) narrow(c *lintChain, r lintRule, j int, words []string) {
	stopped := func(text string) bool {
		if _, err := argv.Compile(text); err != nil {
			return true // it is no pattern that anybody could write instead
		}
		by, _ := l.stoppedForAll(c, r.rule.Tool, text)
		return by != ""
	}
	key := element(r.place+".argv", r.rule.Argv, j)
	// A longer pattern without a star may be meant to the letter; a program alone, or with one word of any kind, hardly is.
	head, rest := words, false
	switch last := words[len(words)-1]; {
	case last == "**":
		head, rest = words[:len(words)-1], true
	case last == "*":
		head = words[:len(words)-1]
	}
	if len(head) == 0 || strings.HasPrefix(head[0], "-") {
		return // FindPattern says it
	}
	if wide := strings.Join(head, " ") + " **"; !rest && (len(words) == 1 || len(head) < len(words)) && !stopped(wide) {
		l.find(key, FindLiteral, "with one word more the command is not denied; %s is it with any words behind", quoteFlow(wide))
		return
	}
	dir, name := path.Split(strings.Trim(head[0], quotes))
	if dir == "" || name == "" || name[0] == '-' || strings.ContainsAny(name, special) || assignment.MatchString(head[0]) {
		return
	}
	wide := strings.Join(append([]string{name}, words[1:]...), " ")
	if !stopped(wide) {
		l.find(key, FindLiteral, "is one spelling of the program's path; %s is it under every path", quoteFlow(wide))
	}
}

// special are characters because of which the name of a program means something else without the quotes or the path around it.
const special = quotes + " \t\r\n*?$`{}~#!&;|<>()="

// allowed returns the vetted pattern that allows what text matches, or nothing.
func (l *linter) allowed(t *lintTable, text string) (by string) {
	for _, command := range l.examples(text) {
		i := firstAllowed(command, t.table)
		if i < 0 {
			return ""
		}
		by = t.said(i)
	}
	return by
}

// runsPrograms says why a vetted pattern lets any program run, or nothing.
func runsPrograms(p argv.Pattern) string {
	words := p.Words()
	name, rest := program(words)
	switch name {
	case "**":
		return "it allows every command"
	case "*":
		return "it allows any program"
	}
	for _, h := range hosts[name] {
		if h.opens(rest) {
			return strings.TrimSpace(name+" "+strings.Join(h.words, " ")) + " " + h.why
		}
	}
	for i, w := range words {
		inner := path.Base(strings.Trim(w, quotes))
		if i > 0 && hosts[inner] != nil && runs(words, w) {
			if why := runsPrograms(argvOf(words[i:])); why != "" {
				return why
			}
		}
	}
	if wrapped(words) {
		return name + " " + cmp.Or(behind[name], itsArgs)
	}
	return ""
}

// program returns the base name of the program that the words name, and the words behind it.
func program(words []string) (name string, rest []string) {
	for i, w := range words {
		if w == "!" || w == "time" || assignment.MatchString(w) {
			continue
		}
		return path.Base(strings.Trim(w, quotes)), words[i+1:]
	}
	return "", nil
}

const quotes = `'"\`

// runs reports whether the matcher sees the program behind others.
func runs(words []string, program string) bool {
	command := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "**" })
	return firstDenied(argv.Lex(strings.Join(command, " ")), argv.NewTable(argvOf([]string{program, "**"}))) >= 0
}

func argvOf(words []string) argv.Pattern {
	p, _ := argv.Compile(strings.Join(words, " ")) // words of a pattern
	return p
}

var assignment = regexp.MustCompile(`\A[A-Za-z_][A-Za-z0-9_]*\+?=`)

// canary is a program that nobody has.
const canary = "assent-lint-canary"

// wrapped reports whether the matcher sees a program of the caller's choice behind the one that is named.
func wrapped(words []string) bool {
	deny := argv.NewTable(argvOf([]string{canary, "**"}))
	for _, payload := range []string{canary, "1 " + canary, "-c " + canary, "-exec " + canary + " ';'"} {
		command := slices.Clone(words)
		for i, w := range command {
			switch w {
			case "*":
				command[i] = canary
			case "**":
				command[i] = payload
			}
		}
		if firstDenied(argv.Lex(strings.Join(command, " ")), deny) >= 0 {
			return true
		}
	}
	return false
}
