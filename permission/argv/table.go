package argv

// Table is a list of compiled patterns, indexed so that a command looks only at those whose first word it may have.
// It is immutable and safe for concurrent use. The zero Table is empty.
type Table struct {
	patterns []Pattern
	byFirst  map[string][]int // the places of the patterns that start with a word of their own
	anyFirst []int            // the places of those that start with * or **
}

// NewTable returns the table of patterns in their order. The zero [Pattern] keeps its place and matches nothing.
func NewTable(patterns ...Pattern) Table {
	t := Table{patterns: append([]Pattern(nil), patterns...), byFirst: map[string][]int{}}
	for i, p := range patterns {
		switch {
		case p.text == "":
		case len(p.tokens) == 0 || p.tokens[0].any:
			t.anyFirst = append(t.anyFirst, i)
		default:
			first := p.tokens[0].text
			t.byFirst[first] = append(t.byFirst[first], i)
		}
	}
	return t
}

// Len returns the number of patterns.
func (t Table) Len() int { return len(t.patterns) }

// cover returns the first pattern that covers words as an allow pattern, or -1.
func (t *Table) cover(words []word) int {
	if len(words) == 0 || len(t.patterns) == 0 {
		return -1
	}
	s := search{table: t, best: len(t.patterns)}
	match := func(p *Pattern) bool { return covers(p, words) }
	s.try(t.byFirst[words[0].text], match)
	s.try(t.anyFirst, match)
	return s.found()
}

// find returns the first pattern that holds for one of views, or with may the first that may hold once a shell has
// expanded it, or -1.
func (t *Table) find(views []view, may bool) int {
	if len(t.patterns) == 0 {
		return -1
	}
	s := search{table: t, best: len(t.patterns)}
	for i := range views {
		v := &views[i]
		match := func(p *Pattern) bool { return holds(p, v) }
		if may {
			if !v.dyn {
				continue
			}
			match = func(p *Pattern) bool { return mayHold(p, v) }
		}
		first := v.first()
		if may && (first == nil || first.dyn) {
			s.tryAll(match)
			continue
		}
		if first == nil {
			continue
		}
		s.try(t.byFirst[first.text], match)
		if first.alt != "" {
			s.try(t.byFirst[first.alt], match)
		}
		s.try(t.anyFirst, match)
	}
	return s.found()
}

// search looks for the first pattern of a table that matches; best is the first found so far.
type search struct {
	table *Table
	best  int
}

func (s *search) try(places []int, match func(*Pattern) bool) {
	for _, i := range places {
		if i >= s.best {
			return
		}
		if match(&s.table.patterns[i]) {
			s.best = i
			return
		}
	}
}

func (s *search) tryAll(match func(*Pattern) bool) {
	for i := range s.best {
		if match(&s.table.patterns[i]) {
			s.best = i
			return
		}
	}
}

func (s *search) found() int {
	if s.best == len(s.table.patterns) {
		return -1
	}
	return s.best
}
