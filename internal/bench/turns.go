package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// perCall compares turns of one call: time, events and bytes between two turns of the model.
func (b *bench) perCall(ctx context.Context) ([]ratio, error) {
	var out []ratio
	for _, c := range []struct{ what, shape string }{{"read", "read"}, {"write", "single"}} {
		var marked []span
		ours, bare, err := both(16, func(kind string) ([]span, error) {
			if kind == kindBare && c.what == "write" {
				one, err := b.turns(ctx, kind, "marked")
				if err != nil {
					return nil, err
				}
				marked = append(marked, one...)
			}
			return b.turns(ctx, kind, c.shape)
		})
		if err != nil {
			return nil, err
		}
		o, r := of(slices.Concat(ours...)), of(slices.Concat(bare...))
		out = append(out,
			ratio{Name: "round trip per allowed " + c.what, Value: o.ms / r.ms, Unit: "ratio", AtMost: 1.10, Ours: o.ms, Bare: r.ms,
				Of: "median ms from a turn of the model to the next, with one call between"},
			ratio{Name: "events per allowed " + c.what, Value: o.events - r.events, Unit: "events more", AtMost: 1, Ours: o.events, Bare: r.events,
				Of: "median events of such a turn"},
			ratio{Name: "bytes per allowed " + c.what, Value: o.bytes - r.bytes, Unit: "bytes more", AtMost: 800, Ours: o.bytes, Bare: r.bytes,
				Of: "median bytes of these events"})
		if len(marked) > 0 {
			m := of(marked)
			out = append(out, ratio{Name: "round trip per allowed write, of a bare one with the same begin mark", Value: o.ms / m.ms, Unit: "ratio", AtMost: 1.10,
				Ours: o.ms, Bare: m.ms, Of: fmt.Sprintf("the same, where the bare call too is put down with the server before it begins, which alone is %.2f times one that is not", m.ms/r.ms)})
		}
	}
	return out, nil
}

// tenReads compares a turn of ten reads with one round trip of the bare loop.
func (b *bench) tenReads(ctx context.Context) ([]ratio, error) {
	var single []span
	ours, bare, err := both(10, func(kind string) ([]span, error) {
		if kind == kindBare {
			one, err := b.turns(ctx, kind, "single")
			if err != nil {
				return nil, err
			}
			single = append(single, one...)
		}
		return b.turns(ctx, kind, "reads")
	})
	if err != nil {
		return nil, err
	}
	o, r, ten := of(slices.Concat(ours...)), of(single), of(slices.Concat(bare...))
	return []ratio{
		{Name: "turn of ten reads", Value: o.ms / r.ms, Unit: "ratio", AtMost: 2, Ours: o.ms, Bare: r.ms,
			Of: "median ms of a turn of ten concurrent reads, and of one bare call; ten bare ones take " + fmt.Sprintf("%.1f ms", ten.ms)},
	}, nil
}

// cost is what spans cost in the middle.
type cost struct{ ms, events, bytes float64 }

func of(all []span) cost {
	pick := func(f func(span) float64) float64 {
		var v []float64
		for _, s := range all {
			v = append(v, f(s))
		}
		return middle(v)
	}
	return cost{
		ms:     pick(func(s span) float64 { return float64(s.took) / float64(time.Millisecond) }),
		events: pick(func(s span) float64 { return float64(s.events) }),
		bytes:  pick(func(s span) float64 { return float64(s.bytes) }),
	}
}
