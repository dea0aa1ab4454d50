package permission_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

// world draws policies and calls from small sets, so that they often meet.
type world struct{ *rand.Rand }

func pick[T any](w world, from ...T) T { return from[w.IntN(len(from))] }

func (w world) rule() permission.Rule {
	switch w.IntN(5) {
	case 0:
		return permission.Rule{Risk: permission.One(pick(w, permission.RiskNames()...))}
	case 1:
		return permission.Rule{Tool: permission.Many(pick(w, "shell", "fetch", "a"), pick(w, "b", "exec"))}
	case 2, 3:
		return permission.Rule{Tool: permission.One(pick(w, "shell", "exec")), Argv: permission.One(pick(w, "rm **", "git push *", "ls", "npm test"))}
	}
	return permission.Rule{Tool: permission.One(pick(w, "fetch", "a")), Domains: permission.One(pick(w, "x.example", "*.example"))}
}

func (w world) rules() []permission.Rule {
	out := make([]permission.Rule, w.IntN(4))
	for i := range out {
		out[i] = w.rule()
	}
	return out
}

func (w world) input() json.RawMessage {
	return pick(w, shell("ls"), shell("rm x"), shell("npm test; git push origin"), shell("git push $X"), shell("echo $(rm y)"), shell("x=1"),
		json.RawMessage(`{"argv":["rm","x"]}`), json.RawMessage(`{"url":"https://x.example/"}`), json.RawMessage(`{"url":"https://ok.test/"}`),
		json.RawMessage(`{}`), json.RawMessage(`null`))
}

func (w world) answer(mayAsk bool) func(context.Context, permission.Call) (permission.Answer, error) {
	answers := []permission.Answer{{}, {}, permission.AnswerDeny("no"), permission.AnswerAllow(), permission.AnswerModify(w.input())}
	if mayAsk {
		answers = append(answers, permission.AnswerAsk("?"))
	}
	return say(pick(w, answers...))
}

func (w world) layer() permission.Layer {
	l := permission.Layer{Deny: w.rules(), Ask: w.rules(), StrictApprovals: w.IntN(4) == 0,
		Preset: pick(w, "", "", permission.Strict, permission.Standard, permission.Open)}
	if w.IntN(3) == 0 {
		l.Hooks = []permission.Hook{{Name: "h", Judge: w.answer(true)}}
	}
	if w.IntN(3) == 0 {
		l.CanUseTool = w.answer(false)
	}
	if w.IntN(3) == 0 {
		l.Vetted = []permission.Vetted{{Tool: permission.One("shell"), Argv: permission.Many("npm test", "ls", "git push *")}}
	}
	return l
}

func (w world) spec() permission.Spec {
	return permission.Spec{Engine: w.layer(), Profile: w.layer(), Readonly: w.IntN(5) == 0}
}

func (w world) tool() tool.Info {
	return tool.Info{Name: pick(w, "shell", "exec", "fetch", "a", "b"), NeedsApproval: w.IntN(3) == 0,
		Risk: pick(w, append(tool.Risks(), tool.Undeclared)...)}
}

// each runs a property over many worlds.
func each(t *testing.T, property func(w world, s permission.Spec, info tool.Info, input json.RawMessage)) {
	t.Helper()
	for seed := range uint64(1000) {
		w := world{rand.New(rand.NewPCG(seed, 7))}
		property(w, w.spec(), w.tool(), w.input())
	}
}

func TestAddingARuleNeverWeakens(t *testing.T) {
	each(t, func(w world, s permission.Spec, info tool.Info, input json.RawMessage) {
		before := permission.Explain(compile(t, s), info, input)
		more := s
		extra := []permission.Rule{w.rule()}
		var table string
		switch w.IntN(3) {
		case 0:
			table = "deny"
			at := w.IntN(len(s.Profile.Deny) + 1)
			more.Profile.Deny = slices.Insert(slices.Clone(s.Profile.Deny), at, extra...)
		case 1:
			table, more.AgentDeny = "agent deny", extra
		case 2:
			table, more.AgentAsk = "agent ask", extra
		}
		after := permission.Explain(compile(t, more), info, input)
		require.LessOrEqual(t, after.Verdict, before.Verdict, "%s %v on %s %s\nbefore %+v\nafter %+v", table, extra[0], info.Name, input, before, after)
	})
}

func TestOrderOfTablesDecidesNothing(t *testing.T) {
	each(t, func(w world, s permission.Spec, info tool.Info, input json.RawMessage) {
		before := permission.Explain(compile(t, s), info, input)
		shuffled := s
		shuffled.Engine.Deny, shuffled.Engine.Ask = slices.Clone(s.Engine.Deny), slices.Clone(s.Engine.Ask)
		w.Shuffle(len(shuffled.Engine.Deny), func(i, j int) {
			shuffled.Engine.Deny[i], shuffled.Engine.Deny[j] = shuffled.Engine.Deny[j], shuffled.Engine.Deny[i]
		})
		w.Shuffle(len(shuffled.Engine.Ask), func(i, j int) {
			shuffled.Engine.Ask[i], shuffled.Engine.Ask[j] = shuffled.Engine.Ask[j], shuffled.Engine.Ask[i]
		})
		after := permission.Explain(compile(t, shuffled), info, input)
		require.Equal(t, before.Verdict, after.Verdict)
		require.Equal(t, before.DecidedBy, after.DecidedBy)
	})
}

func TestReadonlyIsNeverBeaten(t *testing.T) {
	each(t, func(_ world, s permission.Spec, info tool.Info, input json.RawMessage) {
		s.Readonly = true
		d := permission.Explain(compile(t, s), info, input)
		if info.Risk == tool.Write || info.Risk == tool.Destructive {
			require.Equal(t, permission.Deny, d.Verdict)
		}
	})
}

func TestSameCallSameDecision(t *testing.T) {
	each(t, func(_ world, s permission.Spec, info tool.Info, input json.RawMessage) {
		c := compile(t, s)
		require.Equal(t, permission.Explain(c, info, input), permission.Explain(compile(t, s), info, input))
	})
}

// FuzzDecide holds the chain to three things on any input: no panic, a decision that is JSON, and no way past a
// deny rule that names the tool.
func FuzzDecide(f *testing.F) {
	for _, seed := range []string{`{"command":"ls"}`, `{"command":"rm x","command":"ls"}`, `{"argv":["rm"]}`, `{"url":"https://x.example"}`, `{`, ``, `null`, `[[]]`, "{\"command\":\"\\ud800\"}"} {
		f.Add(seed, uint64(1))
	}
	f.Fuzz(func(t *testing.T, input string, seed uint64) {
		w := world{rand.New(rand.NewPCG(seed, 7))}
		s, info := w.spec(), w.tool()
		c, err := permission.Compile(s)
		require.NoError(t, err)
		d := permission.Explain(c, info, json.RawMessage(input))
		_, err = json.Marshal(d)
		require.NoError(t, err)

		s.Engine.Hooks, s.Profile.Hooks = nil, nil
		s.AgentDeny = []permission.Rule{{Tool: permission.One(info.Name)}}
		c, err = permission.Compile(s)
		require.NoError(t, err)
		require.Equal(t, permission.Deny, permission.Explain(c, info, json.RawMessage(input)).Verdict)
	})
}
