package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
)

// parkedRuns is how many runs of each kind are parked at a time.
const parkedRuns = 200

// parked compares what a run that waits for an answer keeps in the worker: heap and stacks after a collection.
//
// Each is measured in a process of its own.
func parked(ctx context.Context, stderr io.Writer) ([]ratio, error) {
	var ratios []ratio
	for _, n := range []string{"1", "8"} {
		name := "ask" + n
		park := func(kind, name string) (float64, error) { return part[float64](ctx, stderr, "park", kind, name) }
		ours, bare, err := both(3, func(kind string) (float64, error) { return park(kind, name) })
		if err != nil {
			return nil, err
		}
		least := math.Inf(1)
		for range 2 {
			one, err := park(kindBare, "signs"+n)
			if err != nil {
				return nil, err
			}
			least = min(least, one)
		}
		questions := float64(shapes[name].Calls)
		o, r := middle(ours), middle(bare)
		line := func(of string, bare float64, what string) ratio {
			return ratio{Name: fmt.Sprintf("parked agent with %.0f pending", questions) + of, Value: (o - bare) / questions / 1000,
				Unit: "kB more per pending call", AtMost: 5, Ours: o / 1000, Bare: bare / 1000, Of: what}
		}
		ratios = append(ratios, line("", r, "kB of heap and stacks in the worker for one parked run"),
			line(", of a bare one with the same signs", least,
				"the same, where the bare run too has a decision, a query, an update, search attributes, memo and page, and shows its questions with them"))
	}
	return ratios, nil
}

// park returns the bytes of one parked run.
func (b *bench) park(ctx context.Context, kind, name string) (float64, error) {
	// The first one pays for what all share.
	first, err := b.many(ctx, kind, name, 1)
	if err != nil {
		return 0, err
	}
	if err := b.waits(ctx, first[0]); err != nil {
		return 0, err
	}
	before := held()
	runs, err := b.many(ctx, kind, name, parkedRuns)
	if err != nil {
		return 0, err
	}
	for _, run := range runs {
		if err := b.waits(ctx, run); err != nil {
			return 0, err
		}
	}
	return float64(held()-before) / parkedRuns, nil
}

// held is the memory that this process cannot give back.
func held() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
