package blob

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// Entry is one blob that a store holds.
type Entry struct {
	Ref Ref
	// Time is that of the last Put of these bytes.
	Time time.Time
}

// Inventory is a Store that can tell what it holds, and let go of it. Bytes have no owner here: the same may be of many
// runs, so whoever deletes has to know all who use the store.
type Inventory interface {
	Store
	// List yields every blob once, in no order. After an error it yields nothing more. What comes and goes meanwhile may
	// be there or not.
	List(ctx context.Context) iter.Seq2[Entry, error]
	// Delete removes ref if its last Put was before the given time, and reports whether it did. A Put at the same moment
	// is never lost: either the bytes stay, or Put stores them anew.
	Delete(ctx context.Context, ref Ref, before time.Time) (bool, error)
}

// NotListableError reports a store that cannot tell what it holds.
type NotListableError struct{ Store string }

func (e *NotListableError) Error() string {
	return fmt.Sprintf("blob store %q cannot list what it holds", e.Store)
}

// InventoryOf returns s as an Inventory, or a *NotListableError.
func InventoryOf(s Store) (Inventory, error) {
	if i, ok := s.(Inventory); ok {
		return i, nil
	}
	return nil, &NotListableError{Store: s.ID()}
}
