package tool

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
)

// Attestation pins a toolset: what every tool promises and what it may do. It is data that lives in a policy
// file under review, so that a changed tool needs a changed line before an agent runs with it.
type Attestation struct {
	ToolsetHash   string `json:"toolsetHash"`
	AuthorityHash string `json:"authorityHash"`
	// Tools holds the hashes of each tool by name; they serve to name what drifted.
	Tools map[string]Attested `json:"tools"`
}

// Attested holds the hashes of one tool.
type Attested struct {
	Contract  string `json:"contract"`
	Authority string `json:"authority"`
}

// Attest returns the attestation that exactly t passes.
func Attest(t Toolset) Attestation {
	a := Attestation{ToolsetHash: t.Hash(), AuthorityHash: t.AuthorityHash(), Tools: map[string]Attested{}}
	for n, i := range t.infos {
		a.Tools[i.Name] = Attested{Contract: canonjson.SHA256(t.contracts[n]), Authority: AuthorityHash(i)}
	}
	return a
}

// DriftError names what differs between an attestation and a toolset. It is a *fault.ConfigError for errors.As:
// trying again without changing one of the two cannot help.
type DriftError struct {
	// Missing tools are attested and gone, Added ones are there and not attested.
	Missing, Added []string
	// Contract and Authority list the tools whose hash of that kind differs.
	Contract, Authority []string
}

// Error lists the drifted tools by kind.
func (e *DriftError) Error() string { return "toolset differs from its attestation: " + e.Changes() }

// Changes lists the drifted tools by kind, and nothing else.
func (e *DriftError) Changes() string {
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"missing", e.Missing}, {"added", e.Added}, {"contract changed", e.Contract}, {"authority changed", e.Authority}} {
		if len(p.names) > 0 {
			parts = append(parts, fmt.Sprintf("%s: %s", p.what, strings.Join(p.names, ", ")))
		}
	}
	if len(parts) == 0 {
		// The hashes by tool agree and the hash of the whole does not: somebody edited the attestation.
		parts = append(parts, "the attestation contradicts itself; make it anew")
	}
	return strings.Join(parts, "; ")
}

// Unwrap returns the drift as a *fault.ConfigError.
func (e *DriftError) Unwrap() error { return fault.Configf("attestation", "%s", e.Error()) }

// Check returns nil if t is exactly what was attested and a *DriftError otherwise.
func (a Attestation) Check(t Toolset) error {
	now := Attest(t)
	drift := &DriftError{}
	for _, name := range slices.Sorted(maps.Keys(a.Tools)) {
		was := a.Tools[name]
		is, ok := now.Tools[name]
		if !ok {
			drift.Missing = append(drift.Missing, name)
			continue
		}
		if is.Contract != was.Contract {
			drift.Contract = append(drift.Contract, name)
		}
		if is.Authority != was.Authority {
			drift.Authority = append(drift.Authority, name)
		}
	}
	for _, name := range t.Names() {
		if _, ok := a.Tools[name]; !ok {
			drift.Added = append(drift.Added, name)
		}
	}
	clean := len(drift.Missing)+len(drift.Added)+len(drift.Contract)+len(drift.Authority) == 0
	if clean && a.ToolsetHash == now.ToolsetHash && a.AuthorityHash == now.AuthorityHash {
		return nil
	}
	return drift
}
