package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Ref names stored bytes: the lower-case hex SHA-256 of the content and its size in bytes.
type Ref struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// RefOf returns the reference that data would have.
func RefOf(data []byte) Ref {
	sum := sha256.Sum256(data)
	return Ref{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data))}
}

// Validate returns an *InvalidRefError unless r has the shape of a reference. A Store checks it before a reference
// becomes a part of a path or a key, because references travel through history.
func (r Ref) Validate() error {
	raw, err := hex.DecodeString(r.SHA256)
	if err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != r.SHA256 || r.Size < 0 {
		return &InvalidRefError{Ref: r}
	}
	return nil
}

// Store keeps bytes by content. Implementations are safe for concurrent use; Put of bytes that are already
// there is no error. Get verifies what it returns against the reference.
type Store interface {
	// ID names the store. An agent records it and refuses to go on with another one.
	ID() string
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

// CorruptError reports stored bytes that no longer match their reference.
type CorruptError struct {
	Store string
	Ref   Ref
	Got   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("blob %s in store %q is corrupt: content has hash %s", e.Ref.SHA256, e.Store, e.Got)
}

// InvalidRefError reports a reference that no bytes can have.
type InvalidRefError struct {
	Ref Ref
}

func (e *InvalidRefError) Error() string {
	return fmt.Sprintf("blob %q (%d bytes) is not a reference: want 64 lower-case hex digits and a size", e.Ref.SHA256, e.Ref.Size)
}
