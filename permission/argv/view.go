package argv

import "slices"

// view is one argument list that deny and ask patterns look at: the words as written, those without
// assignments, the program behind a wrapper.
type view struct {
	words []word
	// base replaces the first word, if not nil: the program's name without its path.
	base *word
	// open: any number of words may follow (xargs).
	open bool
	// dyn: a shell expands some of the words.
	dyn bool
}

func newView(words []word, open bool) view {
	return view{words: words, open: open, dyn: open || slices.ContainsFunc(words, func(w word) bool { return w.dyn })}
}

// first returns the word that stands for the program, or nil if nothing is known of it.
func (v *view) first() *word {
	if len(v.words) == 0 {
		return nil
	}
	return v.at(0)
}

func (v *view) at(i int) *word {
	if i == 0 && v.base != nil {
		return v.base
	}
	return &v.words[i]
}

// holds reports whether p matches the words of v as they stand.
func holds(p *Pattern, v *view) bool {
	n := len(v.words)
	if n < len(p.tokens) || n == 0 || p.text == "" || n > len(p.tokens) && !p.rest {
		return false
	}
	for i := range p.tokens {
		if t := &p.tokens[i]; !t.any && !v.at(i).is(t.text) {
			return false
		}
	}
	return true
}

// mayHold reports whether the words of v may become, once a shell has expanded them, words that p matches. It
// never says no wrongly.
func mayHold(p *Pattern, v *view) bool {
	if p.text == "" || !v.dyn {
		return false
	}
	if len(p.tokens)*len(v.words) > maxFit {
		return true // too much to work out
	}
	// State i means that the first i tokens are matched.
	var short [2][shortSet]bool
	m := matcher{pattern: p, state: boolSet(short[0][:], len(p.tokens)+1), spare: boolSet(short[1][:], len(p.tokens)+1)}
	m.state[0] = true
	for i := range v.words {
		if !m.step(v.at(i)) {
			return false
		}
	}
	if v.open {
		return true // some state is left, and what follows can be anything
	}
	return m.state[len(p.tokens)]
}

type matcher struct {
	pattern      *Pattern
	state, spare []bool
}

// step consumes one word and reports whether any state is left.
func (m *matcher) step(w *word) bool {
	switch {
	case w.gap:
		m.cut(w)
	case w.many:
		m.repeat(w)
	default:
		m.one(w)
	}
	for _, alive := range m.state {
		if alive {
			return true
		}
	}
	return false
}

func (m *matcher) accepts(i int, may func(string) bool) bool {
	t := m.pattern.tokens[i]
	return t.any || may(t.text)
}

func (m *matcher) one(w *word) {
	clear(m.spare)
	last := len(m.pattern.tokens)
	for i, alive := range m.state {
		switch {
		case !alive:
		case i < last:
			if m.accepts(i, w.mayBe) {
				m.spare[i+1] = true
			}
		case m.pattern.rest:
			m.spare[i] = true
		}
	}
	m.state, m.spare = m.spare, m.state
}

// repeat takes any number of words of the shape of w, none included.
func (m *matcher) repeat(w *word) {
	for i := range m.pattern.tokens {
		if m.state[i] && !m.state[i+1] && m.accepts(i, w.mayBe) {
			m.state[i+1] = true
		}
	}
}

// cut takes w cut into words: none, one, or a first, any number of any others, and a last.
func (m *matcher) cut(w *word) {
	last := len(m.pattern.tokens)
	clear(m.spare)
	opened := false // more than one word, the last not yet seen
	vanish := w.mayVanish()
	for i := range m.state {
		before := m.state[i]
		// An open run of words may have ended in any token from here on.
		ends := opened
		if i < last {
			if before && m.accepts(i, w.mayBe) || ends && m.accepts(i, w.mayEnd) {
				m.spare[i+1] = true
			}
			if before && m.accepts(i, w.mayStart) {
				opened = true
			}
		} else if m.pattern.rest && (before || ends) {
			m.spare[i] = true
		}
		if before && vanish {
			m.spare[i] = true
		}
	}
	m.state, m.spare = m.spare, m.state
}
