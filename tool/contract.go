package tool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/assent-dev/assent/internal/canonjson"
)

// Contract returns the canonical JSON of what the model reads: {description, name, parameters, version}, with
// version left out when it is nil. It fails on parameters that have no canonical form and on text that is not
// UTF-8; it does not judge whether the tool could be defined.
func Contract(i Info) (json.RawMessage, error) {
	parameters, err := canonjson.Canonical(i.Parameters)
	if err != nil {
		return nil, fmt.Errorf("contract of tool %q: parameters: %w", i.Name, err)
	}
	// The members in canonical order.
	out := append(make([]byte, 0, len(parameters)+len(i.Description)+len(i.Name)+64), `{"description":`...)
	out, errDescription := canonjson.AppendString(out, i.Description)
	out, errName := canonjson.AppendString(append(out, `,"name":`...), i.Name)
	out = append(append(out, `,"parameters":`...), parameters...)
	if i.Version != nil {
		out, err = canonjson.AppendString(append(out, `,"version":`...), *i.Version)
	}
	if err := cmp.Or(errDescription, errName, err); err != nil {
		return nil, fmt.Errorf("contract of tool %q: %w", i.Name, err)
	}
	return append(out, '}'), nil
}

// ContractHash returns the hex SHA-256 of the Contract, or "" if there is none. A Def and a Toolset always have one.
func ContractHash(i Info) string {
	contract, err := Contract(i)
	if err != nil {
		return ""
	}
	return canonjson.SHA256(contract)
}

// ToolsetHash returns the hex SHA-256 of the canonical array of the contracts sorted by name, or "" if one of
// them has no Contract. The order of infos does not matter; no tools is the hash of [].
func ToolsetHash(infos []Info) string {
	contracts := make([]json.RawMessage, 0, len(infos))
	for _, i := range byName(infos) {
		c, err := Contract(i)
		if err != nil {
			return ""
		}
		contracts = append(contracts, c)
	}
	return hashOfContracts(contracts)
}

func hashOfContracts(contracts []json.RawMessage) string {
	return canonjson.SHA256(joined(contracts))
}

// joined writes the canonical array.
func joined(contracts []json.RawMessage) []byte {
	out := []byte{'['}
	for n, c := range contracts {
		if n > 0 {
			out = append(out, ',')
		}
		out = append(out, c...)
	}
	return append(out, ']')
}

// authority is what a tool may do without being asked, as opposed to what it promises.
type authority struct {
	Name          string        `json:"name"`
	Risk          Risk          `json:"risk"`
	NeedsApproval bool          `json:"needsApproval"`
	Executor      string        `json:"executor"`
	Timeout       time.Duration `json:"timeoutNs"`
	// Remote is left out for tools whose code is here.
	Remote *place `json:"remote,omitempty"`
}

// place is where a Remote runs. Another activity under the same name is another authority; another timeout is not.
type place struct {
	Kind      RemoteKind `json:"kind"`
	Type      string     `json:"type"`
	TaskQueue string     `json:"taskQueue"`
	// Positional matters as much: the same arguments in another order may move money the other way.
	Positional []string `json:"positional,omitzero"`
}

func authorityOf(i Info) authority {
	a := authority{i.Name, i.Risk, i.NeedsApproval, cmp.Or(i.Executor, InProcess), i.Timeout, nil}
	if r := i.Remote; r != nil {
		a.Remote = &place{r.Kind, r.Type, r.TaskQueue, r.Positional}
	}
	return a
}

// AuthorityHash returns the hex SHA-256 over the name, risk, needsApproval, executor and timeout of a tool, and of a
// Remote its kind, type, task queue and order of arguments. An empty executor counts as InProcess.
func AuthorityHash(i Info) string { return hashOf(authorityOf(i)) }

// hashOf hashes values of this package, which always encode.
func hashOf(v any) string {
	canonical, _ := canonjson.Marshal(v)
	return canonjson.SHA256(canonical)
}

func byName(infos []Info) []Info {
	sorted := slices.Clone(infos)
	slices.SortStableFunc(sorted, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	return sorted
}
