package protocol

import "github.com/assent-dev/assent/approval"

// HeaderCarry is the header in which a workflow that continues as new hands on a Carry, as json/plain.
const HeaderCarry = "assent-carry"

// Carry is what the next run of a guarded workflow has to know. It holds names, counts and hashes, no arguments.
type Carry struct {
	// Calls is the number of the last guarded call.
	Calls int `json:"calls"`
	// Passed is the workflow type, if it is guarded and its run was allowed.
	Passed string `json:"passed,omitempty"`
	// Board says that signs for operators were put up, Attributes that search attributes are among them. They have to
	// be taken down at the end.
	Board      bool             `json:"board,omitempty"`
	Attributes bool             `json:"attributes,omitempty"`
	Ledger     approval.Carried `json:"ledger"`
	// Spawned counts the agents that were spawned, by the first part of their id; SpentUSD is what they cost.
	Spawned  map[string]int `json:"spawned,omitempty"`
	SpentUSD float64        `json:"spentUSD,omitempty"`
}
