package approval

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/assent-dev/assent/internal/canonjson"
)

// Signature is an ed25519 signature over the Digest of an answer.
type Signature struct {
	// KeyID is the principal whose key it is, a name in engine.keys.
	KeyID string `json:"keyId"`
	// Sig is the 64 bytes of the signature in standard base64.
	Sig string `json:"sig"`
}

// StatementKind separates what is signed from anything else that the same key may sign.
const StatementKind = "assent.answer/1"

// statement is what a principal signs: the question as it was asked, in the run that asked it, and everything of the
// answer that has an effect.
type statement struct {
	Kind     string `json:"kind"`
	Key      string `json:"key"`
	Tool     string `json:"tool"`
	CallID   string `json:"callId"`
	Seal     Seal   `json:"seal"`
	Decision Choice `json:"decision"`
	Reason   string `json:"reason"`
	// Input is the hex SHA-256 of the canonical JSON of edited arguments, or empty.
	Input  string `json:"input"`
	Always bool   `json:"always"`
	// ExpiresAt is in RFC 3339 and UTC, or empty.
	ExpiresAt string `json:"expiresAt"`
}

// Statement is the canonical JSON (RFC 8785) of what a signature of the answer r to the question q speaks of:
//
//	{"always", "callId", "decision", "expiresAt", "input", "key", "kind", "reason", "seal", "tool"}
//
// The run that asked is part of the seal, so a signature is good in no other run, and for no other question.
func Statement(q Approval, r Resolution) ([]byte, error) {
	s := statement{Kind: StatementKind, Key: q.Key, Tool: q.Tool, CallID: q.CallID, Seal: q.Seal,
		Decision: r.Decision, Reason: r.Reason, Always: r.Always}
	if len(r.Input) > 0 {
		c, err := canonjson.Canonical(r.Input)
		if err != nil {
			return nil, fmt.Errorf("statement about %q: input: %w", q.Key, err)
		}
		s.Input = canonjson.SHA256(c)
	}
	if r.ExpiresAt != nil {
		s.ExpiresAt = r.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	raw, _ := json.Marshal(s) // a struct of strings
	return canonjson.Canonical(raw)
}

// Digest is the SHA-256 of the Statement: the 32 bytes that are signed.
func Digest(q Approval, r Resolution) ([]byte, error) {
	s, err := Statement(q, r)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(s)
	return sum[:], nil
}

// UnsealedError reports a question whose arguments are not those that it seals, as far as it shows them: one that says
// another thing than it binds, or whose arguments are too large to be in it.
type UnsealedError struct{ Key, Shown, Sealed string }

func (e *UnsealedError) Error() string {
	return fmt.Sprintf("approval %q: the arguments that it shows have the digest %s, and it is sealed for %s", e.Key, e.Shown, e.Sealed)
}

// Sealed checks that the arguments which the question shows are those that an answer is for; if not, the error is an
// *UnsealedError.
func (a Approval) Sealed() error {
	shown := "none"
	if c, err := canonjson.Canonical(a.Input); err == nil {
		shown = canonjson.SHA256(c)
	}
	if shown != a.Seal.InputDigest {
		return &UnsealedError{Key: a.Key, Shown: shown, Sealed: a.Seal.InputDigest}
	}
	return nil
}

// Sign returns the answer r to the question q as keyID's, signed. It refuses a question that is not Sealed: whoever signs
// trusts what is shown.
func Sign(q Approval, r Resolution, keyID string, key ed25519.PrivateKey) (Resolution, error) {
	if err := q.Sealed(); err != nil {
		return r, err
	}
	return SignUnseen(q, r, keyID, key)
}

// SignUnseen is Sign for a question whose arguments were read elsewhere.
func SignUnseen(q Approval, r Resolution, keyID string, key ed25519.PrivateKey) (Resolution, error) {
	r.Key, r.By = q.Key, keyID
	digest, err := Digest(q, r)
	if err != nil {
		return r, err
	}
	r.Signature = &Signature{KeyID: keyID, Sig: base64.StdEncoding.EncodeToString(ed25519.Sign(key, digest))}
	return r, nil
}

// SignatureError says why the signature of an answer proves nothing.
type SignatureError struct{ Why string }

func (e *SignatureError) Error() string { return "signature refused: " + e.Why }

// VerifySignature returns the principal who signed the answer r to the question q. keys holds the public key of each
// principal. The error is a *SignatureError; an answer without a signature has one too.
func VerifySignature(q Approval, r Resolution, keys map[string]ed25519.PublicKey) (principal string, err error) {
	if r.Signature == nil {
		return "", &SignatureError{Why: "there is none"}
	}
	id := r.Signature.KeyID
	key, known := keys[id]
	switch {
	case !known || len(key) != ed25519.PublicKeySize:
		return "", &SignatureError{Why: fmt.Sprintf("the key %s is not known here", quote(id))}
	case r.By != "" && r.By != id:
		return "", &SignatureError{Why: fmt.Sprintf("the answer is by %s, and the key is that of %s", quote(r.By), quote(id))}
	}
	sig, err := base64.StdEncoding.DecodeString(r.Signature.Sig)
	if err != nil || len(sig) != ed25519.SignatureSize {
		return "", &SignatureError{Why: "it is not 64 bytes in base64"}
	}
	digest, err := Digest(q, r)
	if err != nil {
		return "", &SignatureError{Why: "the answer cannot be signed"}
	}
	if !ed25519.Verify(key, digest, sig) {
		return "", &SignatureError{Why: "it is not over this answer to this question"}
	}
	return id, nil
}
