package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

func (b *bench) observer(i int, s step) pipeline.Observer {
	return func(_ context.Context, call pipeline.Call, r tool.Result) error {
		switch s.Do {
		case "record", "async_record":
			b.saw(fmt.Sprintf("obs%d", i))
			b.mu.Lock()
			b.codes = append(b.codes, codeOf(r))
			b.mu.Unlock()
			return nil
		case "raise":
			b.saw(fmt.Sprintf("obs%d!", i))
			panic("observer")
		case "mutate":
			copy(call.Input, strings.Repeat(" ", len(call.Input)))
			copy(r.Value, strings.Repeat(" ", len(r.Value)))
			return nil
		}
		panic("unknown verb " + s.Do)
	}
}

func (b *bench) approver(s step) pipeline.Approver {
	return func(ctx context.Context, _ pipeline.Call, _ permission.Decision) (pipeline.Answer, error) {
		b.saw("approver")
		b.mu.Lock()
		b.asks++
		b.mu.Unlock()
		switch s.Do {
		case "return":
			switch string(s.Value) {
			case "true":
				return pipeline.Allow(), nil
			case "false":
				return pipeline.Answer{}, nil
			}
			// Truthy and yet not an allow: in Go that is a number which is no verdict.
			return pipeline.Answer{Verdict: permission.Allow + 1}, nil
		case "raise":
			return pipeline.Allow(), errors.New(s.Message)
		case "wait":
			return pipeline.Allow(), sleep(ctx, s.Seconds)
		case "cancel":
			b.cancel()
			return pipeline.Answer{}, ctx.Err()
		}
		panic("unknown verb " + s.Do)
	}
}

func approvers(t *testing.T, raw json.RawMessage) []step {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var many []step
	if raw[0] != '[' {
		raw = json.RawMessage("[" + string(raw) + "]")
	}
	require.NoError(t, json.Unmarshal(raw, &many))
	return many
}

func (b *bench) body(s step) func(context.Context, *tool.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, _ *tool.Context, input json.RawMessage) (any, error) {
		b.running.Add(1)
		defer b.running.Add(-1)
		b.mu.Lock()
		b.bodies++
		calls := b.bodies
		b.trace = append(b.trace, "body")
		b.mu.Unlock()
		value := any(s.Value)
		if s.Value == nil {
			value = nil
		}
		switch s.Do {
		case "return":
			return value, nil
		case "echo_args":
			return input, nil
		case "raise":
			return nil, errors.New(s.Message)
		case "fail_first":
			if calls <= s.Times {
				return nil, fmt.Errorf("failure %d", calls)
			}
			return value, nil
		case "sleep":
			return value, sleep(ctx, s.Seconds)
		case "ignore_cancel":
			if sleep(ctx, s.Seconds) != nil {
				time.Sleep(seconds(s.More))
			}
			return value, nil
		case "block_sync", "thread_sleep":
			time.Sleep(seconds(s.Seconds))
			return value, nil
		case "raise_timeout":
			return nil, ownTimeout{}
		case "self_cancel":
			return nil, context.Canceled
		case "mutate_args":
			copy(input, strings.Repeat(" ", len(input)))
			return value, nil
		case "slow_first":
			if calls == 1 {
				return value, sleep(ctx, s.Seconds)
			}
			return value, nil
		}
		panic("unknown verb " + s.Do)
	}
}

// ownTimeout is a timeout that the tool reports by itself.
type ownTimeout struct{}

func (ownTimeout) Error() string { return "inner" }
func (ownTimeout) Unwrap() error { return context.DeadlineExceeded }

func (s step) passes(call pipeline.Call) bool {
	if s.WhenPath == nil {
		return false
	}
	var args struct {
		Path string `json:"path"`
	}
	_ = json.Unmarshal(call.Input, &args)
	return args.Path != *s.WhenPath
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func sleep(ctx context.Context, s float64) error {
	timer := time.NewTimer(seconds(s))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
