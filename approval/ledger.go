package approval

import (
	"fmt"
	"slices"
	"time"

	"github.com/assent-dev/assent/tool"
)

const (
	// keptClosed and keptIgnored bound what a run remembers for people; the audit is history itself.
	keptClosed  = 200
	keptIgnored = 200
)

// Ledger is the list of questions of one run. The first close wins. It is not safe for concurrent use: its
// workflow is single-threaded. It never looks at a clock.
type Ledger struct {
	open    []*entry
	granted []Granted
	closed  []Closed
	ignored []Ignored
	// issued are the stems that were given, in the order of the first time. A run has few: a list is smaller than a map.
	issued []Issued
	// done is made when it is first needed: an agent that waits for its first answer has none.
	done map[string]How
}

// entry is an open question; answered is set between an accepted answer and its admission.
type entry struct {
	Approval
	answered bool
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{} }

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
	switch e := l.find(key); {
	case e == nil:
		return &StateError{Key: key, How: l.done[key]}
	case e.answered:
		return &StateError{Key: key, How: "answered"}
	}
	return nil
}

// Ended says how the question of a key ended; it is empty for a key that is open or was never given.
func (l *Ledger) Ended(key string) How { return l.done[key] }

// Asked lists the keys of the open questions in order of asking, also of those whose answer is being admitted: another
// one may still be the one that counts.
func (l *Ledger) Asked() []string {
	keys := make([]string, len(l.open))
	for i, e := range l.open {
		keys[i] = e.Key
	}
	return keys
}

// Standing lists the keys of allowed calls that have not ended, which an answer can still revoke.
func (l *Ledger) Standing() []string {
	keys := make([]string, len(l.granted))
	for i, g := range l.granted {
		keys[i] = g.Key
	}
	return keys
}

// Answered reports whether an answer to the question is being admitted.
func (l *Ledger) Answered(key string) bool {
	e := l.find(key)
	return e != nil && e.answered
}

func (l *Ledger) find(key string) *entry {
	for _, e := range l.open {
		if e.Key == key {
			return e
		}
	}
	return nil
}

// Question returns the open question of a key, answered or not.
func (l *Ledger) Question(key string) (Approval, bool) {
	if e := l.find(key); e != nil {
		return e.Approval, true
	}
	return Approval{}, false
}

// Update changes an open question: its votes, reminders and approvers. Nothing else of a question ever changes.
func (l *Ledger) Update(a Approval) {
	if e := l.find(a.Key); e != nil {
		e.Votes, e.Reminded, e.Approvers, e.Escalated, e.EscalatedTo = a.Votes, a.Reminded, a.Approvers, a.Escalated, a.EscalatedTo
	}
}

// Reopen takes answers again to a question whose last one did not close it.
func (l *Ledger) Reopen(key string) {
	if e := l.find(key); e != nil {
		e.answered = false
	}
}

// Answer takes an answer to a question: until it is admitted others get a *StateError. The question stays open until
// Close.
func (l *Ledger) Answer(key string) error {
	if err := l.Check(key); err != nil {
		return err
	}
	l.find(key).answered = true
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
		l.end(c.Key, c.How)
		l.closed = append(l.closed, c)
		if len(l.closed) > keptClosed {
			l.closed = l.closed[len(l.closed)-keptClosed:]
		}
		if c.How == Allowed {
			l.granted = append(l.granted, Granted{Key: c.Key, Tool: c.Tool, CallID: c.CallID, By: c.By, At: c.At})
		}
		return
	}
}

func (l *Ledger) end(key string, how How) {
	if l.done == nil {
		l.done = map[string]How{}
	}
	l.done[key] = how
}

// Dispatch notes that the call of an allowed question is on its way to a worker.
func (l *Ledger) Dispatch(key string) {
	for i := range l.granted {
		if l.granted[i].Key == key {
			l.granted[i].Dispatched = true
		}
	}
}

// Grant returns the allowed call of a key that has not ended.
func (l *Ledger) Grant(key string) (Granted, bool) {
	for _, g := range l.granted {
		if g.Key == key {
			return g, true
		}
	}
	return Granted{}, false
}

// Revoke notes that an allow was taken back. It reports whether it could be: the call has not ended, and nobody has
// done so before.
func (l *Ledger) Revoke(key string, r Revocation) bool {
	g, ok := l.Grant(key)
	c := l.lastClosed(key)
	if !ok || c != nil && c.Revoked != nil {
		return false
	}
	r.Dispatched = g.Dispatched
	if c != nil {
		c.Revoked = &r
	}
	return true
}

// RevokedAt says when an allow was taken back, where Revoke could not: a signal has no time before its workflow task has.
func (l *Ledger) RevokedAt(key string, at time.Time) {
	if c := l.lastClosed(key); c != nil && c.Revoked != nil {
		r := *c.Revoked // a list that was handed out stays as it was
		r.At = at
		c.Revoked = &r
	}
}

// End notes that the call of an allowed question has ended.
func (l *Ledger) End(key string, outcome tool.Code) {
	l.granted = slices.DeleteFunc(l.granted, func(g Granted) bool { return g.Key == key })
	if c := l.lastClosed(key); c != nil && c.Revoked != nil {
		r := *c.Revoked // a list that was handed out stays as it was
		r.Outcome = outcome
		c.Revoked = &r
	}
}

// lastClosed is nil when the record is no longer kept.
func (l *Ledger) lastClosed(key string) *Closed {
	for i := len(l.closed) - 1; i >= 0; i-- {
		if l.closed[i].Key == key {
			return &l.closed[i]
		}
	}
	return nil
}

// Ignore notes an answer that changed nothing.
func (l *Ledger) Ignore(i Ignored) {
	l.ignored = append(l.ignored, i)
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
		Granted: append([]Granted{}, l.granted...),
		Closed:  append([]Closed{}, l.closed...),
		Ignored: append([]Ignored{}, l.ignored...),
	}
}
