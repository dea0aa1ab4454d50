package argv

// Match returns the strictest verdict over the segments: deny over ask over allow. A segment that no pattern
// matches asks.
func (c Command) Match(t Tables) Result {
	return c.judge(func(s *segment) verdict {
		v := s.restrict(t.Deny, t.Ask)
		if v.outcome == None {
			v = s.permit(t.Allow)
		}
		return v
	})
}

// Chain judges by deny and ask patterns alone and never allows: None means that every segment could be read
// and no pattern matched. The caller asks for it only if the tool has an argv rule.
func (c Command) Chain(deny, ask []Pattern) Result {
	return c.judge(func(s *segment) verdict { return s.restrict(deny, ask) })
}

func (c Command) judge(of func(*segment) verdict) Result {
	segments := c.segments
	if len(segments) == 0 {
		segments = []segment{{asks: "no command"}}
	}
	r := Result{Outcome: None, Index: -1, Segments: make([]Segment, 0, len(segments))}
	for i := range segments {
		v := of(&segments[i])
		r.Segments = append(r.Segments, Segment{
			Segment:   shown(segments[i].text),
			Verdict:   v.outcome.String(),
			Table:     v.table,
			Pattern:   v.pattern,
			Construct: v.construct,
		})
		// The first segment with the strictest outcome speaks for the command.
		if i == 0 || v.outcome < r.Outcome {
			r.Outcome, r.Table, r.Index, r.Construct = v.outcome, v.table, v.index, v.construct
		}
	}
	return r
}
