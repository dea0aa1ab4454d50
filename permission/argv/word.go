package argv

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// word is one shell word after quote removal, with nothing expanded.
type word struct {
	text string // expansions stand in it as written
	dyn  bool   // a shell expands it, so that the token at run time is another one
	gap  bool   // it may become any number of words, cut anywhere in an expansion
	many bool   // it may become several words, each of the same shape (globs, braces)
	// tilde: nothing but a leading ~ is expanded.
	tilde bool
	// spelled: an allow pattern must name it, * and ** do not cover it.
	spelled bool
	// alt is what dash makes of the quotes of bash in it: $'x' is a dollar and x there. Empty if there are none.
	alt string
	// unsure says why deny and ask patterns cannot see what it is.
	unsure string
	// never names the construct for which no allow pattern can match, asks the one for which no pattern is tried.
	never, asks string
	shape       []piece // of a dyn word
}

// unit is one byte of a word, or one expansion, before globs, braces and tildes are found.
type unit struct {
	c    byte
	kind unitKind
}

type unitKind uint8

const (
	bare   unitKind = iota // an unquoted byte
	quoted                 // a byte that stands for itself
	dollar                 // text in quotes that bash and dash read differently
	single                 // an expansion that stays in one word
	cut                    // an expansion whose result is split into words
)

func literal(text string) word { return word{text: text} }

// builder evaluates the parts of a word.
type builder struct {
	src   string
	text  strings.Builder
	alt   *strings.Builder // set from the first $'…' or $"…" on
	units []unit
	word  word
}

// evalWord evaluates w, a word of the tree over src.
func evalWord(src string, w *syntax.Word) word {
	if lit, ok := plain(w); ok {
		return literal(lit)
	}
	b := builder{src: src}
	for _, part := range w.Parts {
		b.part(part, false)
	}
	b.word.text = b.text.String()
	if b.alt != nil {
		b.word.alt = b.alt.String()
	}
	if b.word.asks == "" {
		b.word.asks = substitution(w)
	}
	b.word.expand(b.units)
	return b.word
}

// plain is the fast path: a word of one literal in which no byte means anything to a shell.
func plain(w *syntax.Word) (string, bool) {
	if len(w.Parts) != 1 {
		return "", false
	}
	lit, ok := w.Parts[0].(*syntax.Lit)
	if !ok {
		return "", false
	}
	for i := range len(lit.Value) {
		switch c := lit.Value[i]; {
		case c >= utf8.RuneSelf, strings.IndexByte("\\*?[]{}~", c) >= 0:
			return "", false
		}
	}
	return lit.Value, true
}

func (b *builder) part(part syntax.WordPart, inQuotes bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		if inQuotes {
			b.quotedLit(p.Value)
		} else {
			b.bareLit(p.Value)
		}
	case *syntax.SglQuoted:
		if p.Dollar {
			b.ansi(p.Value)
			return
		}
		b.add(p.Value, quoted)
	case *syntax.DblQuoted:
		if p.Dollar {
			b.refuse(`$"…" quoting`)
			b.dollar()
		}
		for _, inner := range p.Parts {
			b.part(inner, true)
		}
	case *syntax.ParamExp:
		b.param(p, inQuotes)
	case *syntax.ArithmExp:
		b.refuse("arithmetic expansion")
		b.expansion(p, single)
	case *syntax.ExtGlob:
		b.refuse("extended glob")
		b.expansion(p, cut)
	default:
		// Command and process substitutions, and whatever a later parser adds.
		b.word.asks = "substitution"
		if s := substitutionName(part); s != "" {
			b.word.asks = s
		}
		b.expansion(part, cut)
	}
}

func (b *builder) refuse(construct string) {
	if b.word.never == "" {
		b.word.never = construct
	}
}

// dollar notes a dollar that bash drops and dash keeps.
func (b *builder) dollar() {
	if b.alt == nil {
		b.alt = &strings.Builder{}
		b.alt.WriteString(b.text.String())
	}
	b.alt.WriteByte('$')
	b.units = append(b.units, unit{kind: dollar})
}

// ansi adds $'value', which dash reads as a dollar and 'value'.
func (b *builder) ansi(value string) {
	b.refuse("$'…' quoting")
	if strings.Contains(value, `\'`) {
		b.word.unsure = "quote in $'…', where bash and dash end it differently"
	}
	b.dollar()
	text := decodeANSI(value)
	b.text.WriteString(text)
	b.alt.WriteString(value)
}

func (b *builder) add(s string, kind unitKind) {
	b.text.WriteString(s)
	if b.alt != nil {
		b.alt.WriteString(s)
	}
	for i := range len(s) {
		b.units = append(b.units, unit{s[i], kind})
	}
}

func (b *builder) expansion(n syntax.Node, kind unitKind) {
	text := source(b.src, n)
	if kind == single && bracesBare(text) {
		kind = cut
	}
	b.text.WriteString(text)
	if b.alt != nil {
		b.alt.WriteString(text)
	}
	b.units = append(b.units, unit{kind: kind})
}

// bracesBare reports an expansion in quotes with quotes of its own and braces between them. Bash looks for braces before it
// expands anything and takes the inner quotes for the end of the outer ones: "${X:-"{a,b}"}" becomes two words.
func bracesBare(text string) bool {
	return strings.ContainsRune(text, '"') && strings.Contains(strings.TrimPrefix(text, "${"), "{")
}

func source(src string, n syntax.Node) string {
	return src[n.Pos().Offset():n.End().Offset()]
}

// bareLit evaluates an unquoted literal: the tree keeps its backslashes.
func (b *builder) bareLit(s string) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] == '\n' {
				continue
			}
			_, size := utf8.DecodeRuneInString(s[i:])
			b.checkVisible(s[i:])
			b.add(s[i:i+size], quoted)
			i += size - 1
		case c == '\\':
			b.add(s[i:], quoted)
		case c >= utf8.RuneSelf:
			_, size := utf8.DecodeRuneInString(s[i:])
			b.checkVisible(s[i:])
			b.add(s[i:i+size], quoted)
			i += size - 1
		default:
			b.add(s[i:i+1], bare)
		}
	}
}

func (b *builder) checkVisible(s string) {
	if r, _ := utf8.DecodeRuneInString(s); invisible(r) {
		b.refuse("invisible character outside quotes")
	}
}

// quotedLit evaluates a literal inside double quotes, where a backslash escapes five bytes only.
func (b *builder) quotedLit(s string) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch s[i+1] {
			case '\n':
				i++
				continue
			case '$', '"', '\\', '`':
				i++
			}
		}
		b.add(s[i:i+1], quoted)
	}
}

func (b *builder) param(p *syntax.ParamExp, inQuotes bool) {
	kind := cut
	if inQuotes {
		kind = single
	}
	if p.Param == nil || p.Excl || p.Index != nil || p.Names != 0 || p.Param.Value == "@" {
		kind = cut // "$@", "${a[@]}" and "${!p@}" become several words inside quotes too
	}
	if !simpleParam(p) {
		b.refuse("parameter expansion")
	}
	b.expansion(p, kind)
}

// simpleParam reports whether p is $x or ${x}.
func simpleParam(p *syntax.ParamExp) bool {
	return p.Param != nil && p.Flags == nil && !p.Excl && !p.Length && !p.Width && !p.IsSet &&
		p.Split == syntax.OptUnset && p.GlobSubst == syntax.OptUnset && p.RcExpand == syntax.OptUnset &&
		p.NestedParam == nil && p.Index == nil && len(p.Modifiers) == 0 && p.Slice == nil &&
		p.Repl == nil && p.Names == 0 && p.Exp == nil
}

// substitution names the first construct inside n that runs a command of its own.
func substitution(n syntax.Node) string {
	found := ""
	syntax.Walk(n, func(n syntax.Node) bool {
		if found == "" && n != nil {
			found = substitutionName(n)
		}
		return found == ""
	})
	return found
}

func substitutionName(n syntax.Node) string {
	switch n := n.(type) {
	case *syntax.CmdSubst:
		return "command substitution"
	case *syntax.ProcSubst:
		return "process substitution"
	case *syntax.ParamExp:
		if n.Exp != nil && n.Exp.Op == syntax.OtherParamOps && (n.Exp.Word == nil || strings.Contains(n.Exp.Word.Lit(), "P") || n.Exp.Word.Lit() == "") {
			return "prompt expansion ${…@P}"
		}
	}
	return ""
}
