package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assent-dev/assent/fault"
)

// A Source offers tools that are known only at run time, such as those of an MCP server. Tools is called once
// per agent, in a recorded activity.
type Source interface {
	Name() string
	Tools(ctx context.Context) ([]*Def, error)
}

// A Changer is a Source that may hear that what it offers has changed; Changed is when it last did, and says so at once. It is
// asked again before the next call then, and not only after a while.
type Changer interface {
	Changed() time.Time
}

// A Leaver is a Source that keeps something for a working directory, such as a program that runs in it. Leave ends that
// before the directory's work is collected and it is removed, so that nothing writes there any more. It may be called for a
// directory of which the source knows nothing, and again.
type Leaver interface {
	Leave(ctx context.Context, dir string) error
}

// Toolset is the frozen list of an agent's tools, sorted by name, without the code. The zero Toolset is empty.
// Its JSON form is the array of its Infos; decoding verifies them as NewToolset does.
type Toolset struct {
	infos []Info
	// contracts are those of infos, computed once: hashing is for every agent and every check of an attestation.
	contracts []json.RawMessage
}

// NewToolset returns the set of infos. A name twice, a bad name, an unknown risk or parameters without a
// contract are a *fault.ConfigError.
func NewToolset(infos ...Info) (Toolset, error) {
	sorted := byName(infos)
	contracts := make([]json.RawMessage, len(sorted))
	for n, i := range sorted {
		if err := checkName(i.Name); err != nil {
			return Toolset{}, err
		}
		if n > 0 && sorted[n-1].Name == i.Name {
			return Toolset{}, fault.Configf("tools."+i.Name, "the toolset has two tools of this name")
		}
		if err := checkRisk(i.Name, i.Risk); err != nil {
			return Toolset{}, err
		}
		contract, err := Contract(i)
		if err != nil {
			return Toolset{}, &fault.ConfigError{Key: "tools." + i.Name, Msg: "has no contract", Cause: err}
		}
		sorted[n], contracts[n] = i.clone(), contract
	}
	return Toolset{sorted, contracts}, nil
}

// ToolsetOf returns the set of the Infos of defs, with the errors of NewToolset. A nil Def is a *fault.ConfigError.
func ToolsetOf(defs ...*Def) (Toolset, error) {
	infos := make([]Info, len(defs))
	for n, d := range defs {
		if d == nil {
			return Toolset{}, fault.Configf("tools", "tool %d is nil", n)
		}
		infos[n] = d.Info()
	}
	return NewToolset(infos...)
}

// Len returns the number of tools.
func (t Toolset) Len() int { return len(t.infos) }

// Infos returns a copy of the tools, sorted by name.
func (t Toolset) Infos() []Info {
	infos := make([]Info, len(t.infos))
	for n, i := range t.infos {
		infos[n] = i.clone()
	}
	return infos
}

// Names returns the names in order.
func (t Toolset) Names() []string {
	names := make([]string, len(t.infos))
	for n, i := range t.infos {
		names[n] = i.Name
	}
	return names
}

// Lookup returns a copy of the tool of that exact name.
func (t Toolset) Lookup(name string) (Info, bool) {
	n, ok := slices.BinarySearchFunc(t.infos, name, func(i Info, name string) int { return strings.Compare(i.Name, name) })
	if !ok {
		return Info{}, false
	}
	return t.infos[n].clone(), true
}

// Hash returns the hash over all contracts.
func (t Toolset) Hash() string { return hashOfContracts(t.contracts) }

// AuthorityHash returns the hex SHA-256 over what AuthorityHash covers of every tool, sorted by name.
func (t Toolset) AuthorityHash() string {
	all := make([]authority, len(t.infos))
	for n, i := range t.infos {
		all[n] = authorityOf(i)
	}
	return hashOf(all)
}

// MarshalJSON returns the array of Infos.
func (t Toolset) MarshalJSON() ([]byte, error) {
	if t.infos == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(t.infos)
}

// UnmarshalJSON reads the array of Infos and verifies it.
func (t *Toolset) UnmarshalJSON(data []byte) error {
	var infos []Info
	if err := json.Unmarshal(data, &infos); err != nil {
		return fmt.Errorf("decode toolset: %w", err)
	}
	set, err := NewToolset(infos...)
	if err != nil {
		return err
	}
	*t = set
	return nil
}

func (i Info) clone() Info {
	i.Parameters, i.Remote = slices.Clone(i.Parameters), i.Remote.Clone()
	if i.Version != nil {
		v := *i.Version
		i.Version = &v
	}
	return i
}
