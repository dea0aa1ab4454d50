package protocol

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// GrantVersion is the version of the header's format.
const GrantVersion = 1

// Grant permits one activity to run with one input, once. It travels as JSON in HeaderGrant, if it is signed without what
// its worker knows: see Slim.
type Grant struct {
	Version      int    `json:"v"`
	CallID       string `json:"call,omitempty"`
	RunID        string `json:"run,omitempty"`
	ContractHash string `json:"contract,omitempty"`
	// Source is that of tool.Call: two sources may offer one contract and mean something else.
	Source      string `json:"source,omitempty"`
	InputDigest string `json:"input,omitempty"`
	// Terms is the digest of what else the call tells its worker, see Terms. A grant that is not signed has none.
	Terms string `json:"terms,omitempty"`
	// PolicyDigest is the policy's NamedPolicy: it only has to name it, and is under the MAC.
	PolicyDigest string `json:"policy,omitempty"`
	// Expires is the last Unix second at which the activity may start; 0 means no bound.
	Expires int64  `json:"exp,omitempty"`
	KeyID   string `json:"kid,omitempty"`
	// MAC is unpadded URL base64 of the first 128 bits of HMAC-SHA256 over Material; empty without a key.
	MAC string `json:"mac,omitempty"`
}

// Place is what the server attests of a running activity and a grant must name.
type Place struct {
	Namespace    string `json:"namespace"`
	WorkflowID   string `json:"workflow"`
	ActivityType string `json:"type"`
	ActivityID   string `json:"id"`
}

// NamedPolicy is the first half of a policy's digest.
func NamedPolicy(digest string) string {
	const half = 32
	return digest[:min(len(digest), half)]
}

// Known is what the worker of a tool activity knows of its grant by itself: what the call of an agent says, with the contract of
// the tool that the worker serves, and the digest of the arguments that it has.
func Known(call tool.Call, digest string) Grant {
	return Grant{CallID: call.ID, RunID: call.Agent.RunID, ContractHash: call.ContractHash, Source: call.Source, InputDigest: digest, Terms: Terms(call)}
}

// Terms is the digest of what a call tells its worker beside its arguments: where it runs, for whom, who allowed it and under which
// rules and guards. It is the same before Sent and after Received.
func Terms(call tool.Call) string {
	// These are under the MAC themselves, or made of what is.
	call.ID, call.Name, call.Input, call.InputRef, call.IdempotencyKey, call.Source = "", "", nil, nil, "", ""
	if call.Isolation == string(worktree.None) {
		call.Isolation = ""
	}
	b, err := json.Marshal(struct {
		tool.Call
		ContractHash string `json:"contractHash,omitempty"`
	}{Call: call})
	if err != nil {
		return "unreadable" // nobody can send it
	}
	if canonical, err := canonjson.Canonical(b); err == nil {
		b = canonical
	}
	return canonjson.SHA256(b)
}

// Slim leaves out what the worker knows, if the MAC is over it: what is filled in there and is not what was signed is
// refused. An unsigned grant stays whole, because it is compared and nothing else.
func (g Grant) Slim(known Grant) Grant {
	if g.MAC == "" {
		return g
	}
	for _, f := range g.fields(&known) {
		if *f.own == *f.known {
			*f.own = ""
		}
	}
	return g
}

// Full fills in what Slim has left out.
func (g Grant) Full(known Grant) Grant {
	if g.MAC == "" {
		return g
	}
	for _, f := range g.fields(&known) {
		if *f.own == "" {
			*f.own = *f.known
		}
	}
	return g
}

type field struct{ own, known *string }

// fields pairs what may be left out.
func (g *Grant) fields(known *Grant) []field {
	return []field{{&g.CallID, &known.CallID}, {&g.RunID, &known.RunID}, {&g.ContractHash, &known.ContractHash},
		{&g.Source, &known.Source}, {&g.InputDigest, &known.InputDigest}, {&g.Terms, &known.Terms}}
}

// Material is what the MAC is over: the canonical JSON (RFC 8785) of {"grant": g without its mac, "place": p}, where g is
// whole. The format is published in docs/security.md, so that a worker in another language can check a grant.
func (g Grant) Material(p Place) []byte {
	b, err := json.Marshal(material{Place: p, Grant: signed{Call: g.CallID, Contract: g.ContractHash, Expires: g.Expires, Input: g.InputDigest, Key: g.KeyID,
		Policy: g.PolicyDigest, Run: g.RunID, Source: g.Source, Terms: g.Terms, Version: g.Version}})
	if err == nil {
		b, err = canonjson.Canonical(b)
	}
	if err != nil {
		// Both are structs of strings and integers.
		panic(err)
	}
	return b
}

// material is what Material encodes.
type material struct {
	Grant signed `json:"grant"`
	Place Place  `json:"place"`
}

// signed is a Grant of which nothing is left out that has to be there, in the order of the canonical form.
type signed struct {
	Call     string `json:"call"`
	Contract string `json:"contract"`
	Expires  int64  `json:"exp,omitempty"`
	Input    string `json:"input"`
	Key      string `json:"kid,omitempty"`
	Policy   string `json:"policy"`
	Run      string `json:"run"`
	Source   string `json:"source,omitempty"`
	Terms    string `json:"terms,omitempty"`
	Version  int    `json:"v"`
}

// GrantKey is a secret that workers share.
type GrantKey struct {
	ID     string
	Secret []byte
}

// Keyring signs with its first key and verifies with all. The zero Keyring signs nothing and accepts unsigned
// grants: it finds faults of wiring and no forgery.
type Keyring struct{ keys []GrantKey }

// minSecret is the smallest secret in bytes.
const minSecret = 16

// NewKeyring returns a keyring; the first key signs.
func NewKeyring(keys ...GrantKey) (Keyring, error) {
	seen := map[string]bool{}
	for _, k := range keys {
		switch {
		case k.ID == "":
			return Keyring{}, fault.Configf("grantKeys", "a key has no id")
		case seen[k.ID]:
			return Keyring{}, fault.Configf("grantKeys", "the id %q is used twice", k.ID)
		case len(k.Secret) < minSecret:
			return Keyring{}, fault.Configf("grantKeys", "the secret of %q has %d bytes, at least %d are needed", k.ID, len(k.Secret), minSecret)
		}
		seen[k.ID] = true
	}
	return Keyring{keys: keys}, nil
}

// Empty reports whether the ring has no key.
func (r Keyring) Empty() bool { return len(r.keys) == 0 }

// Sign returns g with key id and MAC, or g unchanged when the ring is empty.
func (r Keyring) Sign(g Grant, p Place) Grant {
	g.Version, g.KeyID, g.MAC = GrantVersion, "", ""
	if r.Empty() {
		g.Terms = ""
		return g
	}
	g.KeyID = r.keys[0].ID
	g.MAC = mac(r.keys[0].Secret, g.Material(p))
	return g
}

// macSize is the length of a MAC in bytes. It is not found by searching at leisure, as a collision is: each guess takes a call.
const macSize = 16

func mac(secret, material []byte) string {
	h := hmac.New(sha256.New, secret)
	h.Write(material)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:macSize])
}

// GrantError says why a grant does not permit an activity.
type GrantError struct {
	Why string
	// Expired is set when the moment until which the call could start has passed.
	Expired bool
}

func (e *GrantError) Error() string { return "grant refused: " + e.Why }

// Verify checks everything about a grant but its run id, which decides between refusal and unknown effect.
func (r Keyring) Verify(g Grant, p Place, inputDigest string, now time.Time) error {
	switch {
	case g.Version != GrantVersion:
		return &GrantError{Why: fmt.Sprintf("version %d is unknown", g.Version)}
	case g.Expires != 0 && now.Unix() > g.Expires:
		return &GrantError{Why: "it has expired", Expired: true}
	case inputDigest != "" && g.InputDigest != inputDigest:
		return &GrantError{Why: "it is for other arguments"}
	}
	if r.Empty() {
		return nil
	}
	for _, k := range r.keys {
		if k.ID != g.KeyID {
			continue
		}
		if hmac.Equal([]byte(mac(k.Secret, g.Material(p))), []byte(g.MAC)) {
			return nil
		}
		return &GrantError{Why: "its signature does not match"}
	}
	if g.MAC == "" {
		return &GrantError{Why: "it is not signed"}
	}
	return &GrantError{Why: fmt.Sprintf("its key %q is not known here", g.KeyID)}
}
