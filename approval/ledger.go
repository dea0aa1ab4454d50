package approval

import (
	"fmt"
	"time"
)

const (
	// keptClosed and keptIgnored bound what a run remembers for people; the audit is history itself.
	keptClosed  = 200
	keptIgnored = 50
)

// Ledger is the list of questions of one run. The first close wins. It is not safe for concurrent use: its
// workflow is single-threaded. It never looks at a clock.
type Ledger struct {
	open    []*entry
	closed  []Closed
	ignored []Ignored
	stems   map[string]string
	issued  map[string]int
	// order lists the stems in the order in which they were first issued.
	order []string
	done  map[string]How
}

// entry is an open question; answered is set between an accepted answer and its admission.
type entry struct {
	Approval
	answered bool
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{stems: map[string]string{}, issued: map[string]int{}, done: map[string]How{}}
}

// Open adds a question and returns it with its key.
func (l *Ledger) Open(a Approval) Approval {
	a.Key = l.issue(a.Tool, a.Seal.ContentKey)
	l.open = append(l.open, &entry{Approval: a})
	return a
}

// StateError reports an answer to a question that cannot take one.
type StateError struct {
	Key string
	// How is set when the question was closed before.
	How How
}

func (e *StateError) Error() string {
	if e.How == "" {
		return fmt.Sprintf("approval %q: no such question is pending", e.Key)
	}
	return fmt.Sprintf("approval %q: already %s", e.Key, e.How)
}

// Check says whether an answer to key would be accepted now.
func (l *Ledger) Check(key string) error {
	for _, e := range l.open {
		if e.Key == key && !e.answered {
			return nil
		}
		if e.Key == key {
			return &StateError{Key: key, How: "answered"}
		}
	}
	return &StateError{Key: key, How: l.done[key]}
}

// Ended says how the question of a key ended; it is empty for a key that is open or was never given.
func (l *Ledger) Ended(key string) How { return l.done[key] }

// Answer takes the first answer to a question: later ones get a *StateError. The question stays listed until Close.
func (l *Ledger) Answer(key string) error {
	if err := l.Check(key); err != nil {
		return err
	}
	for _, e := range l.open {
		if e.Key == key {
			e.answered = true
		}
	}
	return nil
}

// Close removes a question and records how it ended. Closing one that is not open changes nothing.
func (l *Ledger) Close(c Closed) {
	for i, e := range l.open {
		if e.Key != c.Key {
			continue
		}
		c.Tool, c.CallID = e.Tool, e.CallID
		l.open = append(l.open[:i:i], l.open[i+1:]...)
		l.done[c.Key] = c.How
		l.closed = append(l.closed, c)
		if len(l.closed) > keptClosed {
			l.closed = l.closed[len(l.closed)-keptClosed:]
		}
		return
	}
}

// Ignore notes an answer that changed nothing.
func (l *Ledger) Ignore(at time.Time, via, key, why string) {
	l.ignored = append(l.ignored, Ignored{At: at, Key: key, Why: why, Via: via})
	if len(l.ignored) > keptIgnored {
		l.ignored = l.ignored[len(l.ignored)-keptIgnored:]
	}
}

// Keys lists the keys that can be answered now, in order of asking.
func (l *Ledger) Keys() []string {
	keys := make([]string, 0, len(l.open))
	for _, e := range l.open {
		if !e.answered {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// Pending lists the questions that can be answered now, in order of asking.
func (l *Ledger) Pending() []Approval {
	out := make([]Approval, 0, len(l.open))
	for _, e := range l.open {
		if !e.answered {
			out = append(out, e.Approval)
		}
	}
	return out
}

// List returns everything for people and for the approvals query; no slice of it is nil.
func (l *Ledger) List() List {
	return List{
		Pending: l.Pending(),
		Closed:  append([]Closed{}, l.closed...),
		Ignored: append([]Ignored{}, l.ignored...),
	}
}
