package workflows_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

type verdictOut struct {
	Verdict string `json:"verdict" jsonschema:"enum=good,enum=bad"`
	Score   int    `json:"score,omitempty" jsonschema:"default=3"`
}

const verdictSchema = `{"type":"object","properties":{"verdict":{"enum":["good","bad"]}},"required":["verdict"],"additionalProperties":false}`

func fromSchema(t *testing.T) *tool.Validator {
	t.Helper()
	v, err := tool.OutputFromSchema(json.RawMessage(verdictSchema))
	require.NoError(t, err)
	return v
}

// The three ways to describe an output, and the input's own, which replaces the profile's.
func TestStructuredOutput(t *testing.T) {
	pair, err := tool.OutputFromPair(json.RawMessage(`{"type":"object"}`), func(raw json.RawMessage) error {
		if !strings.Contains(string(raw), "good") {
			return errors.New("nothing good in it")
		}
		return nil
	})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		output *tool.Validator
		input  string
		says   string
		want   string
	}{
		"a Go type":   {output: tool.MustOutputFor[verdictOut](), says: `{"verdict":"good"}`, want: `{"score":3,"verdict":"good"}`},
		"a schema":    {output: fromSchema(t), says: `{"verdict":"bad"}`, want: `{"verdict":"bad"}`},
		"a pair":      {output: pair, says: `{"x":"good","n":9007199254740993}`, want: `{"n":9007199254740993,"x":"good"}`},
		"the input's": {output: pair, input: verdictSchema, says: `{"verdict":"bad"}`, want: `{"verdict":"bad"}`},
		"in a fence":  {output: fromSchema(t), says: "```json\n{\"verdict\": \"bad\"}\n```", want: `{"verdict":"bad"}`},
		"a fence in prose": {output: fromSchema(t), says: "Here it is:\n```json\n{\"verdict\": \"bad\"}\n```\nThat is all.",
			want: `{"verdict":"bad"}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{profile: config.Profile{Output: tc.output}, model: modelFunc(func(r model.Request) (model.Response, error) {
				require.NotEmpty(t, r.OutputSchema)
				return model.Response{Text: tc.says, Stop: model.StopEnd}, nil
			})})
			res := b.run(protocol.AgentInput{OutputSchema: json.RawMessage(tc.input)})
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, tc.want, string(res.Structured))
			require.Equal(t, 1, res.Turns)
		})
	}
}

// A model is told twice what does not fit, each place with its pointer; then the agent ends with what was wrong.
func TestAnAnswerThatDoesNotFit(t *testing.T) {
	deep := strings.Repeat(`{"verdict":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	for name, tc := range map[string]struct{ says, want string }{
		"prose":         {"I think it is good.", "the answer: "},
		"another value": {`{"verdict": "fine"}`, "/verdict: "},
		"a member more": {`{"verdict": "good", "why": 1}`, "why"},
		"a list":        {`["good"]`, "the answer: "},
		"NaN":           {`{"verdict": NaN}`, "/verdict: "},
		"twice one key": {`{"verdict": "good", "verdict": "bad"}`, "duplicate"},
		"deep":          {deep, "at byte"},
		"two texts":     {`{"verdict": "good"} {"verdict": "bad"}`, "at byte"},
		"two fences":    {"```\n{\"verdict\": \"good\"}\n```\nor\n```\n{\"verdict\": \"bad\"}\n```", "the answer: "},
		"an open fence": {"```json\n{\"verdict\": \"good\"}", "the answer: "},
		"only a fence":  {"```", "the answer: "},
		"nothing":       {"", "the answer is empty"},
		"blanks":        {" \n\t ", "the answer is empty"},
		"no text":       {"\x00\xff", "the answer: "},
		"300 KB":        {strings.Repeat("long ", 60<<10), "the answer: "},
		"3 MB":          {`{"verdict": "` + strings.Repeat("x", 3<<20) + `"}`, "bytes"},
		"20,000 issues": {`{"verdict": "good"` + members(20_000) + "}", "/m1: is not a known property"},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			b := newBench(t, setup{profile: config.Profile{Output: fromSchema(t)}, model: modelFunc(func(r model.Request) (model.Response, error) {
				told = append(told, r.Messages[len(r.Messages)-1].Text)
				return model.Response{Text: tc.says, Stop: model.StopEnd}, nil
			})})
			res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxIdleTurns: 1}})
			require.Equal(t, protocol.Failed, res.Status)
			require.Contains(t, res.Error, "the model's answer does not fit its schema: ")
			require.Contains(t, res.Error, tc.want)
			require.Less(t, len(res.Error), 4<<10)
			require.Empty(t, res.Structured)
			require.Len(t, told, 3, "told twice what is wrong")
			require.Contains(t, told[1], tc.want)
			require.Less(t, len(told[1]), 16<<10)
		})
	}
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":1`, i)
	}
	return b.String()
}

func TestAnAnswerIsMended(t *testing.T) {
	b := newBench(t, setup{profile: config.Profile{Output: fromSchema(t)}, script: `
turns:
  - calls: [{tool: look, args: {path: a}}]
  - say: It is good.
  - expect: {contains: "your answer was not taken"}
    calls: [{tool: look, args: {path: b}}]
  - say: '{"verdict": "fine"}'
  - expect: {contains: "/verdict: "}
    say: '{"verdict": "good"}'
`})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.JSONEq(t, `{"verdict":"good"}`, string(res.Structured))
	require.Equal(t, 5, res.Turns)
	require.Equal(t, []string{"a", "b"}, b.ran["look"])
}

// A large output travels by reference.
func TestALargeOutput(t *testing.T) {
	text := `{"verdict":"good","why":"` + strings.Repeat("<", 200<<10) + `"}`
	b := newBench(t, setup{model: modelFunc(func(model.Request) (model.Response, error) {
		return model.Response{Text: text, Stop: model.StopEnd}, nil
	})})
	res := b.run(protocol.AgentInput{OutputSchema: json.RawMessage(`{"type":"object"}`)})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Empty(t, res.Structured)
	raw, err := b.blob.Get(t.Context(), *res.StructuredRef)
	require.NoError(t, err)
	require.JSONEq(t, text, string(raw))
}

// What a limit leaves an agent to say is its output if it fits, and no error if it does not.
func TestTheLastTurnMayAnswer(t *testing.T) {
	for says, want := range map[string]string{`{"verdict":"bad"}`: `{"verdict":"bad"}`, "no time": ""} {
		b := newBench(t, setup{profile: config.Profile{Output: fromSchema(t)}, model: modelFunc(func(r model.Request) (model.Response, error) {
			if len(r.Tools) == 0 {
				return model.Response{Text: says, Stop: model.StopEnd}, nil
			}
			return model.Response{Stop: model.StopToolUse, Calls: []model.ToolCall{{ID: "1", Name: "look", Input: json.RawMessage(`{"path":"a"}`)}}}, nil
		})})
		res := b.run(protocol.AgentInput{Limits: &protocol.Limits{MaxTurns: 1}})
		require.Equal(t, protocol.LimitHit, res.Status)
		require.Equal(t, want, string(res.Structured))
	}
}

func TestASchemaThatIsNone(t *testing.T) {
	for name, schema := range map[string]string{
		"no object": `{"type":"string"}`, "no schema": `{"type":"nothing"}`, "remote": `{"type":"object","$ref":"https://example.com/x"}`,
		"recursive": `{"type":"object","properties":{"a":{"$ref":"#"}}}`, "a list": `[]`, "a word": `"x"`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{script: "turns: [{say: x}]"})
			b.env.ExecuteWorkflow(protocol.WorkflowAgent, protocol.AgentInput{AgentType: "p", Prompt: "go", OutputSchema: json.RawMessage(schema)})
			require.ErrorContains(t, b.env.GetWorkflowError(), "outputSchema: cannot be used: ")
			require.ErrorContains(t, b.env.GetWorkflowError(), protocol.ErrorConfig)
		})
	}
}

// A turn without text and calls is no answer: a model that goes on is let go on, one that stays silent has failed.
func TestAnEmptyTurn(t *testing.T) {
	b := newBench(t, setup{script: `
turns:
  - calls: [{tool: look, args: {path: a}}]
  - {say: ""}
  - {say: " "}
  - expect: {contains: your last turn was empty}
    say: done
`})
	res := b.run(protocol.AgentInput{})
	require.Equal(t, protocol.OK, res.Status, res.Error)
	require.Equal(t, "done", res.Output)

	b = newBench(t, setup{script: "turns: [{say: ''}, {say: ''}, {say: ''}, {say: never asked}]"})
	res = b.run(protocol.AgentInput{})
	require.Equal(t, protocol.Failed, res.Status)
	require.Equal(t, "the model said nothing and called nothing, 3 times in a row", res.Error)
	require.Equal(t, 3, res.Turns)
}
