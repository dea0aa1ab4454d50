package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"iter"
	"sync"
	"time"
)

// MaxMemory bounds a Memory, in bytes.
const MaxMemory = 256 << 20

// Memory is a Store that ends with its process: for tests and demonstrations. An agent that uses it cannot go on in
// another process. It is bounded by MaxMemory.
type Memory struct {
	id   string
	mu   sync.Mutex
	held map[string]kept
	size int64
}

// kept is one blob of a Memory.
type kept struct {
	data []byte
	at   time.Time
}

// NewMemory returns an empty store. An empty id makes it choose one at random, in the form of a Dir's.
func NewMemory(id string) *Memory {
	if id == "" {
		id = newID()
	}
	return &Memory{id: id, held: map[string]kept{}}
}

// newID is 32 lower-case hex digits.
func newID() string {
	var random [16]byte
	// It never fails: where there is no randomness the runtime ends the program.
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// ID returns the identity that NewMemory gave.
func (m *Memory) ID() string { return m.id }

// Put keeps a copy of data. The error is a *FullError, or that of ctx.
func (m *Memory) Put(ctx context.Context, data []byte) (Ref, error) {
	ref := RefOf(data)
	if err := ctx.Err(); err != nil {
		return Ref{}, fmt.Errorf("blob: put %s: %w", ref.SHA256, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.held[ref.SHA256]; ok {
		old.at = time.Now()
		m.held[ref.SHA256] = old
		return ref, nil
	}
	if m.size+ref.Size > MaxMemory {
		return Ref{}, &FullError{Store: m.id, Max: MaxMemory}
	}
	m.held[ref.SHA256] = kept{bytes.Clone(data), time.Now()}
	m.size += ref.Size
	return ref, nil
}

// Get returns a copy of the bytes of ref. The error is a *NotFoundError, an *InvalidRefError, a *CorruptError for a
// reference with another size, or that of ctx.
func (m *Memory) Get(ctx context.Context, ref Ref) ([]byte, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("blob: get %s: %w", ref.SHA256, err)
	}
	m.mu.Lock()
	k, ok := m.held[ref.SHA256]
	m.mu.Unlock()
	switch {
	case !ok:
		return nil, &NotFoundError{Store: m.id, Ref: ref}
	case !RefOf(k.data).Same(ref):
		return nil, &CorruptError{Store: m.id, Ref: ref, Got: RefOf(k.data)}
	}
	return bytes.Clone(k.data), nil
}

// List yields what the store held when it was called.
func (m *Memory) List(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		m.mu.Lock()
		entries := make([]Entry, 0, len(m.held))
		for sum, k := range m.held {
			entries = append(entries, Entry{Ref{SHA256: sum, Size: int64(len(k.data))}, k.at})
		}
		m.mu.Unlock()
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				yield(Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Delete removes ref if its last Put was before the given time.
func (m *Memory) Delete(ctx context.Context, ref Ref, before time.Time) (bool, error) {
	if err := ref.Validate(); err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("blob: delete %s: %w", ref.SHA256, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.held[ref.SHA256]
	if !ok || !k.at.Before(before) {
		return false, nil
	}
	delete(m.held, ref.SHA256)
	m.size -= int64(len(k.data))
	return true, nil
}
