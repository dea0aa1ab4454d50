package argv

// Outcome is what a table says about a command or a segment, strictest first; the zero value is Deny.
type Outcome uint8

const (
	// Deny refuses.
	Deny Outcome = iota
	// Ask leaves it to a person.
	Ask
	// Allow lets it run. Only [Command.Match] says so.
	Allow
	// None means that no pattern spoke. Only [Command.Chain] says so.
	None
)

// String returns deny, ask, allow or none.
func (o Outcome) String() string {
	switch o {
	case Deny:
		return "deny"
	case Ask:
		return "ask"
	case Allow:
		return "allow"
	case None:
		return "none"
	}
	return "invalid"
}

// The names of the tables in a [Result] and a [Segment].
const (
	TableDeny  = "deny"
	TableAsk   = "ask"
	TableAllow = "allow"
)

// Tables are the patterns that [Command.Match] judges by. The order of patterns does not change a verdict.
type Tables struct {
	Allow, Ask, Deny Table
}

// Segment explains the verdict on one simple command. Its JSON has exactly these five members.
type Segment struct {
	// Segment is the text judged, as written; longer than 4096 bytes it is cut and ends in an ellipsis.
	Segment string `json:"segment"`
	// Verdict is deny, ask, allow or none.
	Verdict string `json:"verdict"`
	// Table is deny, ask or allow: the table of the pattern that decided; empty if none did.
	Table string `json:"table"`
	// Pattern is the pattern that decided, as written; empty if none did.
	Pattern string `json:"pattern"`
	// Construct names the piece of shell grammar that decided or had a part in it; empty if none had.
	Construct string `json:"construct"`
}

// Result is the verdict on a whole command.
type Result struct {
	// Outcome is the strictest outcome over the segments.
	Outcome Outcome
	// Table is [TableDeny], [TableAsk] or [TableAllow] if a pattern decided, else empty. An Outcome of Ask with
	// [TableDeny] means that the command may expand to what that deny pattern names.
	Table string
	// Index is the place of that pattern in its table, or -1.
	Index int
	// Construct names the piece of shell grammar that decided, or is empty.
	Construct string
	// Segments has one entry per simple command, and one per construct judged on its own, in source order. It has
	// at least one and at most 256 entries; of a longer command it has the first ones and, last, the one that decided.
	Segments []Segment
}
