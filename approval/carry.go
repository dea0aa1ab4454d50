package approval

// Issued says how often a key was given to one content, so that the next run of a workflow never gives it again.
type Issued struct {
	Stem       string `json:"stem"`
	ContentKey string `json:"content"`
	Count      int    `json:"count"`
}

// Carried is what the next run of a workflow that continues as new has to know of the questions before it.
type Carried struct {
	Issued []Issued `json:"issued,omitempty"`
	// Closed says how the last keys ended, so that a late answer is told so.
	Closed []CarriedClose `json:"closed,omitempty"`
}

// CarriedClose is a closed key without its story.
type CarriedClose struct {
	Key string `json:"key"`
	How How    `json:"how"`
}

const (
	// carriedKeys bounds what travels in a header: some 100 bytes each.
	carriedKeys   = 500
	carriedClosed = 100
)

// Carry returns what the next run has to know. Of very many keys the oldest are left out: by then nobody answers them.
func (l *Ledger) Carry() Carried {
	var c Carried
	c.Issued = append(c.Issued, l.issued[max(0, len(l.issued)-carriedKeys):]...)
	for _, e := range l.closed[max(0, len(l.closed)-carriedClosed):] {
		c.Closed = append(c.Closed, CarriedClose{Key: e.Key, How: e.How})
	}
	return c
}

// Restore takes over from the run before. It is called before the first question; what it cannot use it leaves out.
func (l *Ledger) Restore(c Carried) {
	for _, i := range c.Issued {
		if i.Stem != "" && i.Count >= 1 && l.stem(i.Stem) == nil {
			l.issued = append(l.issued, i)
		}
	}
	for _, e := range c.Closed {
		if e.Key != "" && e.How != "" {
			l.end(e.Key, e.How)
		}
	}
}

// Saved is the whole of a ledger, for a run that goes on in another one: open questions keep their keys and their age.
type Saved struct {
	Carried
	Open    []Approval `json:"open,omitempty"`
	Records []Closed   `json:"records,omitempty"`
	Ignored []Ignored  `json:"ignored,omitempty"`
}

const (
	savedRecords = 50
	savedIgnored = 20
)

// Save returns what Load takes. Of what has ended it keeps the last records only. An allowed call that has not ended, and
// an answer that is being admitted, cannot be saved: the caller waits for them.
func (l *Ledger) Save() Saved {
	s := Saved{Carried: l.Carry()}
	for _, e := range l.open {
		s.Open = append(s.Open, e.Approval)
	}
	s.Records = append(s.Records, l.closed[max(0, len(l.closed)-savedRecords):]...)
	s.Ignored = append(s.Ignored, l.ignored[max(0, len(l.ignored)-savedIgnored):]...)
	return s
}

// Load takes over what another run saved. It is called on an empty ledger.
func (l *Ledger) Load(s Saved) {
	l.Restore(s.Carried)
	for _, a := range s.Open {
		l.open = append(l.open, &entry{Approval: a})
	}
	l.closed, l.ignored = append(l.closed, s.Records...), append(l.ignored, s.Ignored...)
}

// Stamp says that an open question stands in another run than the one that asked, which goes on in it.
func (l *Ledger) Stamp(key, runID string) {
	if e := l.find(key); e != nil {
		e.Run = runID
	}
}
