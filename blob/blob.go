package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Ref names stored bytes: the lower-case hex SHA-256 of the content and its size in bytes.
type Ref struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	// Claim is where a store keeps the bytes that chooses its addresses itself, in its own words and at most MaxClaim bytes
	// of them. Stores that go by content leave it empty and ignore it.
	Claim string `json:"claim,omitempty"`
}

// MaxClaim is the largest Ref.Claim in bytes: a turn of many calls has many references, all in one payload.
const MaxClaim = 2 << 10

// Same reports whether both references name the same bytes, wherever they are kept.
func (r Ref) Same(o Ref) bool { return r.SHA256 == o.SHA256 && r.Size == o.Size }

// RefOf returns the reference that data would have, without a claim.
func RefOf(data []byte) Ref {
	sum := sha256.Sum256(data)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return Ref{SHA256: string(text[:]), Size: int64(len(data))}
}

// Validate returns an *InvalidRefError unless r has the shape of a reference. A Store checks it before a reference
// becomes a part of a path or a key, because references travel through history.
func (r Ref) Validate() error {
	if len(r.SHA256) != 2*sha256.Size || strings.ContainsFunc(r.SHA256, notHex) || r.Size < 0 || len(r.Claim) > MaxClaim {
		return &InvalidRefError{Ref: r}
	}
	return nil
}

func notHex(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') }

// Store keeps bytes by content. Implementations are safe for concurrent use. Get verifies what it returns against the
// reference. Package blobtest checks all of this.
type Store interface {
	// ID names the store. An agent records it and refuses to go on with another one.
	ID() string
	// Put returns once the bytes are safe. Of bytes that are already there it makes sure that they are whole and, in an
	// Inventory, as young as if they were new.
	Put(ctx context.Context, data []byte) (Ref, error)
	// Get returns the bytes, or a *NotFoundError, *CorruptError or *InvalidRefError.
	Get(ctx context.Context, ref Ref) ([]byte, error)
}

// NotFoundError reports bytes that the store does not hold.
type NotFoundError struct {
	Store string
	Ref   Ref
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("blob %s (%d bytes) is not in store %q", e.Ref.SHA256, e.Ref.Size, e.Store)
}

// CorruptError reports stored bytes that do not match their reference: they were altered, or the reference was.
type CorruptError struct {
	Store string
	Ref   Ref
	// Got is what is stored there.
	Got Ref
}

func (e *CorruptError) Error() string {
	if e.Got.SHA256 == e.Ref.SHA256 {
		return fmt.Sprintf("blob %s in store %q has %d bytes, its reference says %d", e.Ref.SHA256, e.Store, e.Got.Size, e.Ref.Size)
	}
	return fmt.Sprintf("blob %s in store %q is altered: its content has hash %s and %d bytes, not %d", e.Ref.SHA256, e.Store, e.Got.SHA256, e.Got.Size, e.Ref.Size)
}

// InvalidRefError reports a reference that no bytes can have.
type InvalidRefError struct {
	Ref Ref
}

// FullError reports bytes that a bounded store has no room for.
type FullError struct {
	Store string
	// Max is the bound in bytes.
	Max int64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("blob store %q is full: it holds at most %d bytes", e.Store, e.Max)
}

func (e *InvalidRefError) Error() string {
	return fmt.Sprintf("blob %q (%d bytes) is not a reference: want 64 lower-case hex digits and a size", e.Ref.SHA256, e.Ref.Size)
}
