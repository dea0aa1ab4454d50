package main

import (
	"context"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

// mount registers the tools and the approver, all of which end with the scope.
func mount(s *pipeline.Scope) error {
	payment, err := tool.FromPair("pay", "Moves money between two accounts.", transfer, otherAccount, pay, tool.Write, tool.NeedsApproval())
	if err != nil {
		return err
	}
	time, err := tool.FromObject(clock{}, tool.Read)
	if err != nil {
		return err
	}
	for _, def := range []*tool.Def{Search, payment, time} {
		if err := s.Tool(def); err != nil {
			return err
		}
	}
	return s.Approver(func(context.Context, pipeline.Call, permission.Decision) (pipeline.Answer, error) {
		return pipeline.Answer{Verdict: permission.Allow, Reason: "below the limit"}, nil
	})
}
