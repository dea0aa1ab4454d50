package tool_test

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

var refundSchema = json.RawMessage(`{"type":"object","properties":{"orderId":{"type":"string"},"amount":{"type":"integer"}},"required":["orderId"]}`)

func refund(opts ...tool.Option) (*tool.Def, error) {
	return tool.FromActivity("refund", "Refunds an order.", refundSchema, "RefundOrder", "billing", opts...)
}

func refundFlow(opts ...tool.Option) (*tool.Def, error) {
	return tool.FromWorkflow("refund", "Refunds an order.", refundSchema, "RefundOrder", "billing", opts...)
}

// What the options leave open is filled in where the tool is defined, so that history shows what holds.
func TestRemoteIsComplete(t *testing.T) {
	day := 24 * time.Hour
	once, thrice := tool.Retry{MaximumAttempts: 1}, tool.Retry{MaximumAttempts: 3}
	type define func(...tool.Option) (*tool.Def, error)
	for name, c := range map[string]struct {
		define define
		opts   []tool.Option
		times  tool.Timeouts
		retry  tool.Retry
	}{
		"an effect is tried once":       {refund, []tool.Option{tool.Write}, tool.Timeouts{StartToClose: tool.DefaultStartToClose}, once},
		"undeclared too":                {refund, nil, tool.Timeouts{StartToClose: tool.DefaultStartToClose}, once},
		"reading is tried again":        {refund, []tool.Option{tool.Read}, tool.Timeouts{StartToClose: tool.DefaultStartToClose}, thrice},
		"what is idempotent too":        {refund, []tool.Option{tool.Write, tool.Idempotent()}, tool.Timeouts{StartToClose: tool.DefaultStartToClose}, thrice},
		"a workflow is not":             {refundFlow, []tool.Option{tool.Read}, tool.Timeouts{StartToClose: tool.DefaultStartToClose}, once},
		"the tool's timeout":            {refund, []tool.Option{tool.Timeout(time.Hour)}, tool.Timeouts{StartToClose: time.Hour}, once},
		"the timeout of all attempts":   {refund, []tool.Option{tool.Timeouts{ScheduleToClose: day}}, tool.Timeouts{StartToClose: day, ScheduleToClose: day}, once},
		"a timeout of its own wins":     {refund, []tool.Option{tool.Timeout(time.Hour), tool.Timeouts{StartToClose: day}}, tool.Timeouts{StartToClose: day}, once},
		"a retry of its own wins":       {refund, []tool.Option{tool.Read, once}, tool.Timeouts{StartToClose: tool.DefaultStartToClose}, once},
		"without end in a bounded time": {refund, []tool.Option{tool.Timeouts{ScheduleToClose: day}, tool.Retry{}}, tool.Timeouts{StartToClose: day, ScheduleToClose: day}, tool.Retry{}},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := c.define(c.opts...)
			require.NoError(t, err)
			r := d.Info().Remote
			require.Equal(t, c.times, r.Timeouts)
			require.Equal(t, c.retry, r.Retry)
			require.Equal(t, "RefundOrder", r.Type)
			require.Equal(t, "billing", r.TaskQueue)
			require.Nil(t, r.Positional)
			require.Empty(t, d.Info().Executor)
		})
	}
}

func TestBadRemotes(t *testing.T) {
	at := func(typ, queue string) func() error {
		return func() error {
			_, err := tool.FromActivity("a", "d", refundSchema, typ, queue)
			return err
		}
	}
	with := func(o ...tool.Option) func() error { return func() error { _, err := refund(o...); return err } }
	flow := func(o ...tool.Option) func() error { return func() error { _, err := refundFlow(o...); return err } }
	local := func(o tool.Option) func() error {
		return func() error { _, err := tool.New("find", "d", runFind, o); return err }
	}
	retry := func(r tool.Retry) func() error { r.MaximumAttempts = max(r.MaximumAttempts, 2); return with(r) }
	for name, c := range map[string]struct {
		key, text string
		define    func() error
	}{
		"no type":               {"tools.a.activity", "has no type", at("", "q")},
		"an agent":              {"tools.a.workflow", "agents are spawned", func() error { _, err := tool.FromWorkflow("a", "d", refundSchema, "assent.Agent", ""); return err }},
		"a tool of ours":        {"tools.a.activity", `do not begin with "tool."`, at("tool.shell", "")},
		"a local activity":      {"tools.a.activity", `do not begin with "Assent"`, at("AssentDecide", "")},
		"an own activity":       {"tools.a.activity", "an activity of the engine", at("DisposeWorktree", "q@host")},
		"a type of Temporal's":  {"tools.a.activity", "do not begin with", at("__temporal_x", "")},
		"a queue of Temporal's": {"tools.a.taskQueue", "reserved by Temporal", at("X", "/_sys/x")},
		"a long type":           {"tools.a.activity", "at most 200", at(strings.Repeat("x", 201), "")},
		"a long queue":          {"tools.a.taskQueue", "at most 200", at("X", strings.Repeat("x", 201))},
		"bytes":                 {"tools.a.activity", "is no name", at("X\xff", "")},
		"a line break":          {"tools.a.taskQueue", "is no name", at("X", "a\nb")},
		"spaces around":         {"tools.a.activity", "is no name", at(" X", "")},
		"executor":              {"tools.refund.executor", "cannot be chosen", with(tool.Executor(tool.InProcess))},
		"unknown executor":      {"tools.refund.executor", "unknown executor", with(tool.Executor("moon"))},
		"negative timeout":      {"tools.refund.timeout", "is negative", with(tool.Timeout(-1))},
		"negative start":        {"tools.refund.startToClose", "is negative", with(tool.Timeouts{StartToClose: -1})},
		"negative close":        {"tools.refund.scheduleToClose", "is negative", with(tool.Timeouts{ScheduleToClose: -1})},
		"negative wait":         {"tools.refund.scheduleToStart", "is negative", with(tool.Timeouts{ScheduleToStart: -1})},
		"negative heartbeat":    {"tools.refund.heartbeat", "is negative", with(tool.Timeouts{Heartbeat: -1})},
		"waiting workflow":      {"tools.refund.scheduleToStart", "a workflow has none", flow(tool.Timeouts{ScheduleToStart: 1})},
		"beating workflow":      {"tools.refund.heartbeat", "a workflow has none", flow(tool.Timeouts{Heartbeat: 1})},
		"negative attempts":     {"tools.refund.retry", "-1 attempts", with(tool.Retry{MaximumAttempts: -1})},
		"many attempts":         {"tools.refund.retry", "cannot be made", with(tool.Retry{MaximumAttempts: math.MaxInt32 + 1})},
		"no end":                {"tools.refund.retry", "need a ScheduleToClose", with(tool.Retry{})},
		"negative interval":     {"tools.refund.retry", "is negative", retry(tool.Retry{InitialInterval: -1})},
		"negative maximum":      {"tools.refund.retry", "is negative", retry(tool.Retry{MaximumInterval: -1})},
		"shrinking":             {"tools.refund.retry", "shorter than the first", retry(tool.Retry{InitialInterval: time.Minute, MaximumInterval: time.Second})},
		"shorter than default":  {"tools.refund.retry", "shorter than the first", retry(tool.Retry{MaximumInterval: time.Millisecond})},
		"a pause of ages":       {"tools.refund.retry", "say MaximumInterval", retry(tool.Retry{InitialInterval: math.MaxInt64/100 + 1})},
		"small coefficient":     {"tools.refund.retry", "BackoffCoefficient 0.5", retry(tool.Retry{BackoffCoefficient: 0.5})},
		"no coefficient":        {"tools.refund.retry", "BackoffCoefficient NaN", retry(tool.Retry{BackoffCoefficient: math.NaN()})},
		"endless coefficient":   {"tools.refund.retry", "BackoffCoefficient +Inf", retry(tool.Retry{BackoffCoefficient: math.Inf(1)})},
		"empty error type":      {"tools.refund.retry", `"" is not a type`, retry(tool.Retry{NonRetryable: []string{""}})},
		"timeout as error type": {"tools.refund.retry", "not a type of application errors", retry(tool.Retry{NonRetryable: []string{"TemporalTimeout:Often"}})},
		"argument twice":        {"tools.refund.positional", "named twice", with(tool.Positional("amount", "amount"))},
		"unknown argument":      {"tools.refund.positional", `"total" is not a property of the parameters; one of amount, orderId`, with(tool.Positional("orderId", "total"))},
		"property left out":     {"tools.refund.positional", `"amount" is not named`, with(tool.Positional("orderId"))},
		"times of a function":   {"tools.find", "for FromActivity", local(tool.Timeouts{StartToClose: 1})},
		"retry of a function":   {"tools.find", "for FromActivity", local(tool.Retry{MaximumAttempts: 2})},
		"order of a function":   {"tools.find", "for FromActivity", local(tool.Positional())},
		"no object":             {"tools.a.parameters", "must be an object", func() error { _, err := tool.FromActivity("a", "d", json.RawMessage(`{}`), "X", ""); return err }},
		"no schema":             {"tools.a.parameters", "is not a JSON text", func() error { _, err := tool.FromActivity("a", "d", nil, "X", ""); return err }},
		"no name":               {"tools.name", "illegal tool name", func() error { _, err := tool.FromWorkflow("a.b", "d", refundSchema, "X", ""); return err }},
		"nil option":            {"tools.refund", "option is nil", with(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.define()
			var bad *fault.ConfigError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, c.key, bad.Key)
			require.ErrorContains(t, err, c.text)
		})
	}
}

// An option changes no tool that was defined with it, and an Info no tool that it was read from.
func TestRemoteIsFrozen(t *testing.T) {
	names, fatal := []string{"orderId", "amount"}, []string{"Broke"}
	d, err := refund(tool.Positional(names...), tool.Retry{MaximumAttempts: 2, NonRetryable: fatal})
	require.NoError(t, err)
	names[0], fatal[0] = "x", "x"
	i := d.Info()
	i.Remote.Positional[1], i.Remote.Retry.NonRetryable[0], i.Remote.Type = "x", "x", "x"
	r := d.Info().Remote
	require.Equal(t, []string{"orderId", "amount"}, r.Positional)
	require.Equal(t, []string{"Broke"}, r.Retry.NonRetryable)
	require.Equal(t, "RefundOrder", r.Type)
}

func TestArguments(t *testing.T) {
	input := json.RawMessage(`{"orderId":"a<b","amount":9007199254740993}`)
	for name, c := range map[string]struct {
		opts  []tool.Option
		input json.RawMessage
		want  []string
	}{
		"one object":  {nil, input, []string{string(input)}},
		"in order":    {[]tool.Option{tool.Positional("amount", "orderId")}, input, []string{`9007199254740993`, `"a<b"`}},
		"one missing": {[]tool.Option{tool.Positional("orderId", "amount")}, json.RawMessage(`{"orderId":"a"}`), []string{`"a"`, `null`}},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := refund(c.opts...)
			require.NoError(t, err)
			require.Empty(t, d.Validate(c.input))
			got, err := d.Info().Remote.Arguments(c.input)
			require.NoError(t, err)
			require.Len(t, got, len(c.want))
			for i := range got {
				require.Equal(t, c.want[i], string(got[i]))
			}
		})
	}
	none, err := tool.FromActivity("tick", "Ticks.", json.RawMessage(`{"type":"object","properties":{}}`), "Tick", "", tool.Positional())
	require.NoError(t, err)
	got, err := none.Info().Remote.Arguments(json.RawMessage(`{}`))
	require.NoError(t, err)
	require.Empty(t, got)
	// The form that history keeps still tells no arguments from the whole object.
	b, err := json.Marshal(none.Info().Remote)
	require.NoError(t, err)
	var back tool.Remote
	require.NoError(t, json.Unmarshal(b, &back))
	require.NotNil(t, back.Positional)
	whole, err := json.Marshal(tool.Remote{})
	require.NoError(t, err)
	require.NotContains(t, string(whole), "positional")
}

// A member that would not be passed is refused before anybody approves it.
func TestPositionalTakesNothingElse(t *testing.T) {
	d, err := refund(tool.Positional("orderId", "amount"))
	require.NoError(t, err)
	require.Equal(t, []tool.Issue{{Pointer: "/a~1b", Message: "is not an argument of this tool"}}, d.Validate(json.RawMessage(`{"orderId":"a","a/b":1}`)))
	open, err := refund()
	require.NoError(t, err)
	require.Empty(t, open.Validate(json.RawMessage(`{"orderId":"a","a/b":1}`)))
}

func TestRemoteRunsInAgentsOnly(t *testing.T) {
	d, err := refund()
	require.NoError(t, err)
	r := d.Invoke(context.Background(), nil, json.RawMessage(`{"orderId":"a"}`))
	require.Equal(t, tool.Fail(tool.ToolError, `the tool "refund" is the activity "RefundOrder" on task queue "billing" and runs in an agent only`), r)
	here, err := tool.FromWorkflow("refund", "Refunds.", refundSchema, "RefundOrder", "")
	require.NoError(t, err)
	r = here.Invoke(context.Background(), nil, json.RawMessage(`{"orderId":"a"}`))
	require.Equal(t, `the tool "refund" is the workflow "RefundOrder" and runs in an agent only`, r.Failure.Message)
}

// Where a tool runs is nothing that the model reads, and everything that it may do.
func TestRemoteIsAuthorityAndNoContract(t *testing.T) {
	local, err := tool.FromSchema("refund", "Refunds an order.", refundSchema, echo)
	require.NoError(t, err)
	activity, err := refund()
	require.NoError(t, err)
	flow, err := refundFlow()
	require.NoError(t, err)
	elsewhere, err := tool.FromActivity("refund", "Refunds an order.", refundSchema, "RefundOrder", "")
	require.NoError(t, err)
	slow, err := refund(tool.Timeouts{StartToClose: time.Hour}, tool.Retry{MaximumAttempts: 2})
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, d := range []*tool.Def{local, activity, flow, elsewhere} {
		require.Equal(t, local.ContractHash(), d.ContractHash())
		seen[d.AuthorityHash()] = true
	}
	require.Len(t, seen, 4)
	require.Equal(t, activity.AuthorityHash(), slow.AuthorityHash())
}

// The order in which an activity gets its arguments is what it does with them, so an attestation holds it.
func TestTheOrderOfArgumentsIsAuthority(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"}},"required":["from","to"]}`)
	var sets []tool.Toolset
	for _, order := range [][]string{{"from", "to"}, {"to", "from"}} {
		d, err := tool.FromActivity("transfer", "Moves money.", schema, "Transfer", "bank", tool.Positional(order...))
		require.NoError(t, err)
		set, err := tool.ToolsetOf(d)
		require.NoError(t, err)
		sets = append(sets, set)
	}
	require.NoError(t, tool.Attest(sets[0]).Check(sets[0]))
	require.ErrorContains(t, tool.Attest(sets[0]).Check(sets[1]), "authority changed: transfer")
}
