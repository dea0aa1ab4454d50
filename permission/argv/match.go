package argv

// Compile compiles a pattern. The error is a [*PatternError]: nothing in the pattern, text that is no list
// of shell words, a ** that is not last.
func Compile(text string) (Pattern, error) {
	return Pattern{}, &PatternError{Pattern: text, Msg: "no words"}
}

// Lex lexes shell text. It never fails: what cannot be lexed is a Command that asks.
func Lex(command string) Command { return Command{segments: []segment{{text: command}}} }

// LexArgv takes an argument list that runs without a shell: one segment of literal tokens.
func LexArgv(args []string) Command { return Command{} }

// Match returns the strictest verdict over the segments: deny over ask over allow. A segment that no pattern
// matches asks.
func (c Command) Match(t Tables) Result { return Result{Outcome: Ask, Index: -1} }

// Chain judges by deny and ask patterns alone and never allows: None means that every segment could be read
// and no pattern matched. The caller asks for it only if the tool has an argv rule.
func (c Command) Chain(deny, ask []Pattern) Result { return Result{Outcome: Ask, Index: -1} }

// Suggest returns the exact pattern that allows segment, the text of one simple command, and nothing else;
// false if there is none, because a shell would expand a word of it or it can never be allowed.
func Suggest(segment string) (string, bool) { return "", false }
