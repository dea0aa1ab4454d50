package argv

// Command is a shell command or an argument list, lexed. It is immutable and safe for concurrent use. The
// zero value asks.
type Command struct {
	segments []segment
}

type segment struct {
	text string
}
