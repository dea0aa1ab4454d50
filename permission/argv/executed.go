package argv

// LexExecuted takes an argument list that a shell has expanded and is about to execute. Unlike [LexArgv] it refuses
// nothing for its looks or its length: nobody reads it before it runs, and a deny pattern must not lose sight of rm because
// an argument behind it is odd.
func LexExecuted(args []string) Command {
	if len(args) == 0 {
		return unread("", "no command")
	}
	seg := segment{text: quoteAll(args)}
	for _, arg := range args {
		seg.words = append(seg.words, literal(arg))
	}
	seg.program(seg.words, false, 0)
	return Command{segments: []segment{seg}}
}
