package main

import (
	"context"
	"time"

	"go.temporal.io/sdk/workflow"
)

// shape is what an agent does: so many turns of so many calls each.
type shape struct {
	Turns int `json:"turns"`
	Calls int `json:"calls"`
	// Reads run at once; others run one after another.
	Reads bool `json:"reads,omitempty"`
	// Asked calls wait for an answer.
	Asked bool `json:"asked,omitempty"`
	// Marked has a bare loop's calls put down with the server that they begin, as our calls that must not run twice do.
	Marked bool `json:"marked,omitempty"`
	// Signs has a bare loop show that it waits, as our agents do.
	Signs bool `json:"signs,omitempty"`
}

// thinkIn is what a model is told, thinkOut what it wants: as in an agent, arguments and results travel with a turn.
type thinkIn struct {
	Shape   shape  `json:"shape"`
	Turn    int    `json:"turn"`
	Results []work `json:"results"`
}

type thinkOut struct {
	Calls []work `json:"calls"`
}

func think(_ context.Context, in thinkIn) (thinkOut, error) {
	if in.Turn > in.Shape.Turns {
		return thinkOut{}, nil
	}
	out := thinkOut{Calls: make([]work, in.Shape.Calls)}
	for i := range out.Calls {
		out.Calls[i] = work{Text: "x", N: i}
	}
	return out, nil
}

// answerBare is the signal that a bare loop waits for.
const answerBare = "go"

// bareAgent is an agent of the SDK alone: it does the activities of ours, each with the least that it needs.
func bareAgent(ctx workflow.Context, s shape) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	if err := workflow.ExecuteActivity(ctx, "Work", work{Text: "resolve"}).Get(ctx, nil); err != nil {
		return err
	}
	var results []work
	for turn := 1; ; turn++ {
		var t thinkOut
		if err := workflow.ExecuteActivity(ctx, "Think", thinkIn{s, turn, results}).Get(ctx, &t); err != nil {
			return err
		}
		if len(t.Calls) == 0 {
			return nil
		}
		if s.Signs {
			if err := signs(ctx, s); err != nil {
				return err
			}
		}
		if s.Asked {
			workflow.GetSignalChannel(ctx, answerBare).Receive(ctx, nil)
		}
		var err error
		if results, err = bareTurn(ctx, t.Calls, s); err != nil {
			return err
		}
	}
}

func bareTurn(ctx workflow.Context, calls []work, s shape) ([]work, error) {
	does := "Work"
	if s.Marked {
		does = "Marked"
		ctx = workflow.WithHeartbeatTimeout(ctx, 10*time.Second)
	}
	results := make([]work, len(calls))
	futures := make([]workflow.Future, len(calls))
	for i, c := range calls {
		futures[i] = workflow.ExecuteActivity(ctx, does, c)
		if !s.Reads {
			if err := futures[i].Get(ctx, &results[i]); err != nil {
				return nil, err
			}
		}
	}
	for i, f := range futures {
		if err := f.Get(ctx, &results[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}
