package assenttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/assenttest"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// till is a configuration whose refunds are counted.
func till(refunded *[]int) assent.Config {
	pay := func(_ context.Context, _ *tool.Context, o order) (string, error) {
		if o.Amount == 13 {
			return "", errors.New("the till is stuck")
		}
		*refunded = append(*refunded, o.Amount)
		return "done", nil
	}
	c := clerk
	c.Tools = []*tool.Def{tool.MustNew("refund", "Pays an order back.", pay, tool.Execute)}
	return c
}

func calling(args ...any) assenttest.Turns {
	t := assenttest.Turn{}
	for _, a := range args {
		t.Calls = append(t.Calls, assenttest.Call{Tool: "refund", Args: a})
	}
	return assenttest.Turns{t, {Say: "bye"}}
}

var task = protocol.AgentInput{AgentType: "clerk", Prompt: "Refund."}

func TestAnswersDecide(t *testing.T) {
	edit := func(approval.Approval) *protocol.Resolution {
		return &protocol.Resolution{Decision: approval.Allow, Input: json.RawMessage(`{"amount":1}`)}
	}
	for name, c := range map[string]struct {
		answer assenttest.Answerer
		codes  []string
		ran    []int
	}{
		"allow":  {assenttest.Allow, []string{"refund OK"}, []int{7}},
		"deny":   {assenttest.Deny, []string{"refund DENIED"}, nil},
		"edited": {edit, []string{"refund OK"}, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			var ran []int
			run := assenttest.New(t, till(&ran), calling(order{7})).Answer(c.answer).Run(task)
			require.NoError(t, run.Err)
			assert.Equal(t, protocol.OK, run.Result.Status)
			assert.Equal(t, c.codes, run.Codes())
			assert.Equal(t, c.ran, ran)
			require.Len(t, run.Questions, 1)
			assert.JSONEq(t, `{"amount":7}`, string(run.Questions[0].Input))
			assert.JSONEq(t, `{"amount":7}`, string(run.Calls[0].Input))
			assert.Len(t, run.Messages, 4)
		})
	}
}

func TestAnAgentThatNobodyAnswersSaysSo(t *testing.T) {
	var ran []int
	run := assenttest.New(t, till(&ran), calling(order{7})).Answer(nil).Run(task)
	require.ErrorIs(t, run.Err, assenttest.ErrWaits)
	require.Len(t, run.Questions, 1)
	require.Empty(t, ran)
}

func TestADeadlineOfDaysPassesAtOnce(t *testing.T) {
	var ran []int
	cfg := till(&ran)
	cfg.Permissions.Approval = &permission.ApprovalPolicy{Deadline: 72 * time.Hour}
	run := assenttest.New(t, cfg, calling(order{7})).Run(task)
	require.NoError(t, run.Err)
	assert.Equal(t, []string{"refund DENIED"}, run.Codes())
	assert.Equal(t, protocol.OK, run.Result.Status)
}

func TestAnAnswerThatDoesNotCountIsTold(t *testing.T) {
	var ran []int
	cfg := till(&ran)
	cfg.Approvers.Groups = map[string][]string{"boss": {"ada"}}
	cfg.Permissions.Approval = &permission.ApprovalPolicy{Deadline: time.Hour, Approvers: &permission.Approvers{Groups: []string{"boss"}}}
	run := assenttest.New(t, cfg, calling(order{7})).Answer(func(approval.Approval) *protocol.Resolution {
		return &protocol.Resolution{Decision: approval.Allow, By: "eve"}
	}).Run(task)
	require.NoError(t, run.Err)
	require.NotEmpty(t, run.Ignored)
	require.Empty(t, ran)
}

func TestWhatGoesWrongIsSeen(t *testing.T) {
	var ran []int
	cfg := till(&ran)
	cfg.Permissions.Preset = permission.Open
	run := assenttest.New(t, cfg, calling(order{13}, json.RawMessage(`{"amount": "many"}`), json.RawMessage(`{"amount`), nil)).Answer(assenttest.Allow).Run(task)
	require.NoError(t, run.Err)
	assert.Equal(t, []string{"refund TOOL_ERROR", "refund INVALID_ARGUMENTS", "refund INVALID_ARGUMENTS", "refund INVALID_ARGUMENTS"}, run.Codes())

	short := assenttest.New(t, cfg, assenttest.Turns{calling(order{1})[0]}).Answer(assenttest.Allow).Run(task)
	require.NoError(t, short.Err)
	assert.Equal(t, protocol.Failed, short.Result.Status)
	assert.Contains(t, short.Result.Error, "the test has 1 turns and turn 2 was asked for")

	check := calling(order{1})
	check[1].Check = func(r model.Request) error {
		if len(r.Messages) != 3 {
			return errors.New("another conversation")
		}
		return errors.New("seen")
	}
	seen := assenttest.New(t, cfg, check).Answer(assenttest.Allow).Run(task)
	require.NoError(t, seen.Err)
	assert.Contains(t, seen.Result.Error, "turn 2: seen")

	unknown := assenttest.New(t, cfg, calling()).Run(protocol.AgentInput{AgentType: "nobody", Prompt: "x"})
	require.ErrorContains(t, unknown.Err, `unknown profile "nobody"`)
}

// What cannot be configured fails the test that tries.
func TestABadConfigurationFailsTheTest(t *testing.T) {
	fake := &recorder{TB: t}
	fails := func(says string, f func()) {
		func() {
			defer func() { _ = recover() }()
			f()
		}()
		require.Contains(t, fake.said, says)
	}
	fails("an engine needs at least one profile", func() { assenttest.New(fake, assent.Config{}, calling()) })
	var ran []int
	fails("the model is nil", func() { assenttest.New(fake, till(&ran), nil) })
	a := assenttest.New(fake, till(&ran), assenttest.Turns{{Say: "hi"}})
	require.NoError(t, a.Run(task).Err)
	fails("an agent runs once", func() { a.Run(task) })
}

type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Fatalf(_ string, args ...any) {
	r.said = args[0].(error).Error()
	panic(r.said)
}

func TestEveryModelIsReplaced(t *testing.T) {
	var ran []int
	cfg := till(&ran)
	cfg.Profiles = map[string]config.Profile{"clerk": {Name: "clerk", Models: []string{"a:x", "b:y"}, Tools: []string{"refund"}}}
	cfg.Models = map[string]model.Model{"c": nil}
	in := task
	in.Models = []string{"c:z"}
	run := assenttest.New(t, cfg, assenttest.Turns{{Say: "hi"}}).Run(in)
	require.NoError(t, run.Err)
	require.Equal(t, protocol.OK, run.Result.Status, run.Result.Error)
}
