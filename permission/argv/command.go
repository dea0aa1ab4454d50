package argv

import "strings"

// Command is a shell command or an argument list, lexed. It is immutable and safe for concurrent use. The
// zero value asks.
type Command struct {
	segments []segment
	// broken says why there may be more to the command than segments; it asks whatever they say.
	broken string
}

// segment is one simple command, or one construct that is judged by itself.
type segment struct {
	text  string // as written
	words []word // keywords, assignments and arguments: what an allow pattern has to cover
	views []view // what deny and ask patterns look at
	// asks names the construct for which no pattern is tried. never names the one that no allow pattern can cover.
	asks, never string
	// unsure says what deny and ask patterns may have missed.
	unsure string
	// note says what was passed over.
	note string
}

// Lex lexes shell text. It never fails: what cannot be lexed is a Command that asks.
func Lex(command string) Command { return lexNested(command, 0) }

// lexNested lexes text that stands depth commands deep: in sh -c, eval and the like.
func lexNested(command string, depth int) (c Command) {
	if reason := refusal(command); reason != "" {
		return unread(command, reason)
	}
	defer func() {
		// A fault in the parser or here must ask, not end the process that judges.
		if r := recover(); r != nil {
			c = unread(command, lexerFailed)
		}
	}()
	p := parse(command)
	l := lexer{src: p.src, depth: depth, broken: p.broken}
	l.stmts(p.stmts, scope{})
	if l.tooDeep {
		return unread(command, tooDeep)
	}
	c = Command{segments: l.segments, broken: l.broken}
	if c.broken == "" && backslashes(command)%2 == 1 {
		c.broken = "backslash at the end" // text that goes on; what bash makes of it depends on what stands before
	}
	if len(c.segments) == 0 && c.broken == "" {
		c.broken = "no command"
	}
	if c.broken != "" {
		c.segments = append(c.segments, segment{text: command, asks: c.broken})
	}
	return c
}

// unread is a command that asks as a whole.
func unread(text, reason string) Command {
	return Command{broken: reason, segments: []segment{{text: text, asks: reason}}}
}

const (
	tooDeep     = "more than 200 nested compound commands"
	lexerFailed = "text that the lexer fails on"
)

// LexArgv takes an argument list that runs without a shell: one segment of literal tokens, in which nothing is
// parsed. An empty list asks, and so does an argument that a reader cannot see for what it is.
func LexArgv(args []string) Command {
	if len(args) == 0 {
		return unread("", "no command")
	}
	total := 0
	for _, arg := range args {
		total += len(arg) + 1
	}
	if total > maxBytes {
		return unread(args[0], "more than 64 KiB")
	}
	text := quoteAll(args)
	seg := segment{text: text}
	for _, arg := range args {
		if reason := unreadable(arg); reason != "" {
			return unread(text, reason)
		}
		seg.words = append(seg.words, literal(arg))
	}
	seg.program(seg.words, false, 0)
	return Command{segments: []segment{seg}}
}

// maxShown bounds the text of a segment in a [Result].
const maxShown = 4096

const ellipsis = "…"

// shown returns text as a person may safely read it: cut, and with the runes that could mislead a terminal
// written as escapes.
func shown(text string) string {
	if len(text) > maxShown {
		cut := maxShown
		for cut > 0 && text[cut]&0xc0 == 0x80 {
			cut--
		}
		text = text[:cut] + ellipsis
	}
	if unreadable(text) == "" {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		i += escape(&b, text[i:])
	}
	return b.String()
}
