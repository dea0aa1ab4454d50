package tool

// Rules is the policy under which a tool runs, for what its arguments did not show when the call was judged: the program
// that a shell really starts, the host behind a redirect. It is safe for concurrent use.
type Rules interface {
	// Argv returns an error that is Refused if a deny rule of the tool matches a program with its arguments.
	Argv(argv []string) error
	// Host returns an error that is Refused if a deny rule of the tool matches a host name or address, or if an ask
	// rule does: nobody can be asked any more. asked says that ask rules have been seen to, because the call was judged
	// on this very host.
	Host(host string, asked bool) error
}
