package approval

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
)

// Directory knows the principals who answer: engine.groups and engine.keys of a configuration. The zero Directory knows
// nobody: then only questions that anybody may answer can be allowed.
type Directory struct {
	// Groups maps a group to the names of its members.
	Groups map[string][]string
	// Keys holds the public keys of principals who sign. An unsigned allow in the name of one of them does not count.
	Keys map[string]ed25519.PublicKey
}

// Members are the principals of groups, each once, in order.
func (d Directory) Members(groups []string) []string {
	var all []string
	for _, g := range groups {
		all = append(all, d.Groups[g]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Short says how many principals too few a policy names for its questions to be allowed ever; 0 is enough.
func (d Directory) Short(p permission.ApprovalPolicy) int {
	if p.Approvers == nil || len(p.Approvers.Groups) == 0 {
		return 0
	}
	groups := p.Approvers.Groups
	if p.Escalate != nil {
		groups = append(slices.Clone(groups), p.Escalate.Groups...)
	}
	return max(0, max(p.Approvers.Min, 1)-len(d.Members(groups)))
}

// UnentitledError says why an allow does not count.
type UnentitledError struct{ Why string }

func (e *UnentitledError) Error() string { return "the allow does not count: " + e.Why }

// mostName bounds the name of a principal in bytes: what is recorded of a longer one is no longer distinct.
const mostName = 200

// Principal says who gives the answer r to the question q. A name that is not signed is self-asserted. The error is a
// *SignatureError.
func (d Directory) Principal(q Approval, r Resolution) (name string, signed bool, err error) {
	if r.Signature == nil {
		return strings.TrimSpace(r.By), false, nil
	}
	name, err = VerifySignature(q, r, d.Keys)
	return name, err == nil, err
}

// Entitled says why an allow of a principal does not count, as an *UnentitledError; nil if it does. signed says that
// a signature proves the name.
//
// Only an allow needs this: whoever can send an answer can also cancel the run, so a deny is taken from anybody.
func (d Directory) Entitled(q Approval, name string, signed bool) error {
	no := func(format string, args ...any) error { return &UnentitledError{Why: fmt.Sprintf(format, args...)} }
	if _, signs := d.Keys[name]; signs && !signed {
		return no("%s signs answers, and this one is not signed", quote(name))
	}
	a := q.Approvers
	switch {
	case a == nil:
		return nil
	case name == "":
		return no("it does not say who gives it (by)")
	case len(name) > mostName:
		return no("the name of who gives it has more than %d bytes", mostName)
	case name == strings.TrimSpace(q.RequestedBy):
		return no("%s asked for the run", quote(name))
	case slices.ContainsFunc(q.Votes, func(v Vote) bool { return v.By == name }):
		return no("%s has allowed it before", quote(name))
	case len(a.Groups) > 0 && !slices.Contains(d.Members(a.Groups), name):
		return no("%s is in none of the groups %s", quote(name), strings.Join(a.Groups, ", "))
	}
	return nil
}

// Check refuses names that an answer could not bear, and a key that two principals share: one person would count as two.
func (d Directory) Check() error {
	name := func(where, n string) error {
		switch {
		case n == "" || strings.TrimSpace(n) != n:
			return fault.Configf("Approvers", "%s: the name %s is empty, or has blanks at its ends", where, quote(n))
		case len(n) > mostName:
			return fault.Configf("Approvers", "%s: the name %s has %d bytes, at most %d fit", where, quote(n), len(n), mostName)
		}
		return nil
	}
	for _, g := range slices.Sorted(maps.Keys(d.Groups)) {
		for _, n := range d.Groups[g] {
			if err := name("group "+quote(g), n); err != nil {
				return err
			}
		}
	}
	owner := map[string]string{}
	for _, n := range slices.Sorted(maps.Keys(d.Keys)) {
		if err := name("keys", n); err != nil {
			return err
		}
		if len(d.Keys[n]) != ed25519.PublicKeySize {
			return fault.Configf("Approvers", "keys: that of %s has %d bytes, a public key has %d", quote(n), len(d.Keys[n]), ed25519.PublicKeySize)
		}
		if other, shared := owner[string(d.Keys[n])]; shared {
			return fault.Configf("Approvers", "keys: %s and %s have the same one, and would count as two", quote(other), quote(n))
		}
		owner[string(d.Keys[n])] = n
	}
	return nil
}
