package argv

// Match returns the strictest verdict over the segments: deny over ask over allow. A segment that no pattern
// matches asks.
func (c Command) Match(t Tables) Result {
	return c.judge(func(s *segment) verdict {
		v := s.restrict(&t.Deny, &t.Ask)
		if v.outcome == None {
			v = s.permit(&t.Allow)
		}
		return v
	})
}

// Chain judges by deny and ask patterns alone and never allows: None means that every segment could be read
// and no pattern matched. The caller asks for it only if the tool has an argv rule.
func (c Command) Chain(deny, ask Table) Result {
	return c.judge(func(s *segment) verdict { return s.restrict(&deny, &ask) })
}

// maxExplained bounds the segments told in a [Result]; all of them are judged.
const maxExplained = 256

func (c Command) judge(of func(*segment) verdict) Result {
	segments := c.segments
	if len(segments) == 0 {
		segments = []segment{{asks: "no command"}}
	}
	r := Result{Outcome: None, Index: -1, Segments: make([]Segment, 0, min(len(segments), maxExplained))}
	for i := range segments {
		v := of(&segments[i])
		// The first segment with the strictest outcome speaks for the command.
		decides := i == 0 || v.outcome < r.Outcome
		if decides {
			r.Outcome, r.Table, r.Index, r.Construct = v.outcome, v.table, v.index, v.construct
		}
		switch {
		case len(r.Segments) < maxExplained:
			r.Segments = append(r.Segments, segments[i].explain(v))
		case decides:
			r.Segments[maxExplained-1] = segments[i].explain(v)
		}
	}
	return r
}

func (s *segment) explain(v verdict) Segment {
	return Segment{
		Segment:   shown(s.text),
		Verdict:   v.outcome.String(),
		Table:     v.table,
		Pattern:   v.pattern,
		Construct: v.construct,
	}
}
