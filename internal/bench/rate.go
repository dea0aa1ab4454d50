package main

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
)

// crowd is how many agents are started at once, and starters by how many.
const (
	crowd    = 60
	starters = 8
)

// rate compares how many agents go from start to end in a second.
func (b *bench) rate(ctx context.Context) ([]ratio, error) {
	var out []ratio
	for _, c := range []struct{ what, shape string }{{"reads", "reads3"}, {"writes", "three"}} {
		ours, bare, err := both(3, func(kind string) (float64, error) {
			began := time.Now()
			runs, err := b.many(ctx, kind, c.shape, crowd)
			if err != nil {
				return 0, err
			}
			for _, run := range runs {
				if err := ended(ctx, kind, run); err != nil {
					return 0, err
				}
			}
			return crowd / time.Since(began).Seconds(), nil
		})
		if err != nil {
			return nil, err
		}
		o, r := middle(ours), middle(bare)
		out = append(out, ratio{Name: "agents of three " + c.what + " per second", Value: o / r, Unit: "ratio", AtLeast: 0.80, Ours: o, Bare: r,
			Of: "median agents per second from start to end, each with three calls in three turns"})
	}
	return out, nil
}

// many starts n agents of a shape.
func (b *bench) many(ctx context.Context, kind, name string, n int) ([]client.WorkflowRun, error) {
	runs, errs := make([]client.WorkflowRun, n), make([]error, n)
	var wg sync.WaitGroup
	for s := range starters {
		wg.Go(func() {
			for i := s; i < n; i += starters {
				runs[i], errs[i] = b.begin(ctx, kind, name)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return runs, nil
}
