package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
)

// ratio is one line of the report: what was measured of our agents and of the bare loop, and whether it is good enough.
type ratio struct {
	Name string `json:"name"`
	// Value is Ours in terms of Bare, as Unit says.
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// AtMost or AtLeast is the target.
	AtMost  float64 `json:"atMost,omitempty"`
	AtLeast float64 `json:"atLeast,omitempty"`
	Pass    bool    `json:"pass"`
	Ours    float64 `json:"ours"`
	Bare    float64 `json:"bare"`
	// Of says what Ours and Bare are.
	Of string `json:"of"`
}

func (r ratio) judged() ratio {
	r.Pass = r.AtMost > 0 && r.Value <= r.AtMost || r.AtLeast > 0 && r.Value >= r.AtLeast
	r.Value, r.Ours, r.Bare = rounded(r.Value), rounded(r.Ours), rounded(r.Bare)
	return r
}

func rounded(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }

// missedError names the ratios that miss their targets.
type missedError struct{ names []string }

func (e *missedError) Error() string {
	return "not good enough: " + strings.Join(e.names, ", ")
}

type measured struct {
	name string
	of   func(context.Context, io.Writer) ([]ratio, error)
}

// measures are the lines of the report, in the order in which they are measured, each apart from the others.
var measures = []measured{
	{"call", whole("call")}, {"reads", whole("reads")}, {"signal", whole("signal")}, {"rate", whole("rate")},
	{"parked", parked}, {"replay", replay},
}

func engine(ctx context.Context, only string, stdout, stderr io.Writer) error {
	if only != "" && !slices.ContainsFunc(measures, func(m measured) bool { return m.name == only }) {
		return fmt.Errorf("there is no measure %q", only)
	}
	out := json.NewEncoder(stdout)
	if err := out.Encode(map[string]any{"cpus": runtime.NumCPU(), "load": load()}); err != nil {
		return err
	}
	var missed []string
	for _, m := range measures {
		if only != "" && only != m.name {
			continue
		}
		ratios, err := m.of(ctx, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		for _, r := range ratios {
			if r = r.judged(); !r.Pass {
				missed = append(missed, r.Name)
			}
			if err := out.Encode(r); err != nil {
				return err
			}
		}
	}
	if err := out.Encode(map[string]any{"load": load(), "missed": len(missed)}); err != nil {
		return err
	}
	if len(missed) > 0 {
		return &missedError{missed}
	}
	return nil
}

// both measures the bare loop and our agents in turn, so that what else the machine does meets both.
func both[T any](times int, of func(kind string) (T, error)) (ours, bare []T, err error) {
	kinds := []string{kindBare, kindAgent}
	for range times {
		for _, kind := range kinds {
			one, err := of(kind)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", kind, err)
			}
			if kind == kindBare {
				bare = append(bare, one)
			} else {
				ours = append(ours, one)
			}
		}
		// Neither is always the one that finds what the other has left to do.
		slices.Reverse(kinds)
	}
	return ours, bare, nil
}

func middle(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}
