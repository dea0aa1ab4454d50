package main

import (
	"context"

	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/verify"
)

// histories reads a workflow's latest run and all that it was continued or reset from, the oldest first; or the one run
// that is named.
func histories(ctx context.Context, s *connect.Server, id, run string) ([]verify.Run, error) {
	if run == "" {
		all, err := verify.Fetch(ctx, s, id, "")
		if err != nil {
			return nil, unknownAgent(s, id, err)
		}
		return all, nil
	}
	one, err := verify.FetchOne(ctx, s, id, run)
	if err != nil {
		return nil, unknownAgent(s, id, err)
	}
	return []verify.Run{one}, nil
}
