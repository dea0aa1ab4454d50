package permission

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/assent-dev/assent/tool"
)

// Call is one tool call as the chain judges it. Hooks get a copy and cannot change it but by AnswerModify.
type Call struct {
	Tool tool.Info
	// Input is the argument value.
	Input json.RawMessage
	// Dir is the working directory; Isolation is none, readonly or worktree.
	Dir, Isolation string
	// Agent is nil in workflows that are not agents.
	Agent *tool.Agent
}

func (c Call) clone() Call {
	c.Input = bytes.Clone(c.Input)
	c.Tool.Parameters = bytes.Clone(c.Tool.Parameters)
	if c.Tool.Version != nil {
		v := *c.Tool.Version
		c.Tool.Version = &v
	}
	if c.Agent != nil {
		a := *c.Agent
		c.Agent = &a
	}
	return c
}

// Answer is what a hook or canUseTool says. The zero value says nothing, and the chain goes on.
type Answer struct {
	kind   answerKind
	reason string
	input  json.RawMessage
}

type answerKind uint8

const (
	answerNone answerKind = iota
	answerAllow
	answerDeny
	answerAsk
	answerModify
)

// AnswerAllow lets the call run and stops the chain.
func AnswerAllow() Answer { return Answer{kind: answerAllow} }

// AnswerDeny refuses the call and stops the chain. The model reads the reason.
func AnswerDeny(reason string) Answer { return Answer{kind: answerDeny, reason: reason} }

// AnswerAsk leaves the call to a person and stops the chain. From canUseTool it is nonsense, which denies.
func AnswerAsk(reason string) Answer { return Answer{kind: answerAsk, reason: reason} }

// AnswerModify puts another argument value in place of the call's; the chain goes on with it. An input that is not
// JSON or does not fit the tool denies.
func AnswerModify(input json.RawMessage) Answer {
	return Answer{kind: answerModify, input: bytes.Clone(input)}
}

// Hook judges every call before any rule. It may run more than once for one call and must be free of effects. An
// error, a panic and a timeout deny. One that never returns keeps its goroutine, though nobody waits for it any more: a hook
// has to heed its context.
type Hook struct {
	// Name stands in decisions and in the policy digest; change it when what the hook does changes.
	Name  string
	Judge func(context.Context, Call) (Answer, error)
	// Slow hooks wait for other systems and get sixty times the hook timeout. A chain that has one is decided in an
	// activity of its own, within ten minutes.
	Slow bool
}

// CanUseTool is asked after all rules. It may allow, deny, modify or say nothing.
type CanUseTool func(context.Context, Call) (Answer, error)

// Layer is one level of policy: an engine's, a profile's.
type Layer struct {
	Hooks []Hook `json:"-"`
	Deny  []Rule `json:"deny,omitempty"`
	Ask   []Rule `json:"ask,omitempty"`
	// Vetted commands compile to the last hook of the whole chain.
	Vetted []Vetted `json:"vetted,omitempty"`
	// CanUseTool is one slot in a chain: the profile's, else an inherited parent's, else the engine's.
	CanUseTool CanUseTool `json:"-"`
	// StrictApprovals keeps an allow of canUseTool from covering a tool that needs approval.
	StrictApprovals bool `json:"strictApprovals,omitempty"`
	// Preset adds rules after the layer's own.
	Preset Preset `json:"preset,omitempty"`
	// Approval says how questions are put, for every question of the chain that no rule says otherwise of.
	Approval *ApprovalPolicy `json:"approval,omitempty"`
	// InheritPermissions puts the parent's layer between the engine's and this one; profiles only.
	InheritPermissions bool `json:"inheritPermissions,omitempty"`
}

// UnmarshalJSON decodes strictly.
func (l *Layer) UnmarshalJSON(b []byte) error {
	type plain Layer
	return decodeStrict(b, "permissions", (*plain)(l),
		"deny", "ask", "vetted", "strictApprovals", "preset", "approval", "inheritPermissions")
}

// Concat returns one layer that judges like the given ones, outermost first, for the parent of a child whose parent
// inherited too. Presets become rules at their place. InheritPermissions is the first layer's.
func Concat(layers ...Layer) (Layer, error) {
	var out Layer
	for i, l := range layers {
		deny, ask, err := CompilePreset(l.Preset)
		if err != nil {
			return Layer{}, err
		}
		out.Hooks = append(out.Hooks, l.Hooks...)
		out.Deny = append(append(out.Deny, l.Deny...), deny...)
		out.Ask = append(append(out.Ask, l.Ask...), ask...)
		out.Vetted = append(out.Vetted, l.Vetted...)
		if l.CanUseTool != nil {
			out.CanUseTool = l.CanUseTool
		}
		out.StrictApprovals = out.StrictApprovals || l.StrictApprovals
		out.Approval = overlay(out.Approval, l.Approval)
		if i == 0 {
			out.InheritPermissions = l.InheritPermissions
		}
	}
	return out, nil
}

// overlay puts the parts of top that are set over those of base, so that a deadline alone keeps the approvers.
func overlay(base, top *ApprovalPolicy) *ApprovalPolicy {
	if base == nil || top == nil {
		if base == nil {
			base = top
		}
		return base
	}
	out := *base
	if top.Deadline != 0 {
		out.Deadline = top.Deadline
	}
	if top.Remind != 0 {
		out.Remind = top.Remind
	}
	if top.Escalate != nil {
		out.Escalate = top.Escalate
	}
	if top.Approvers != nil {
		out.Approvers = top.Approvers
	}
	return &out
}

// Spec is what a chain is compiled from.
type Spec struct {
	Engine Layer
	// Parent is the layer of the agent that spawned this one. It counts only if Profile.InheritPermissions is set.
	Parent  *Layer
	Profile Layer
	// AgentDeny and AgentAsk come with one agent's input. They tighten and never loosen: an ask of theirs does not
	// shield a call that canUseTool would deny, and they cannot say who may answer.
	AgentDeny, AgentAsk []Rule
	// RunVetted are the lines that people who may answer have added for one run.
	RunVetted []Vetted
	// Readonly denies tools that declare write or destructive, as a rule after the presets and as a guard.
	Readonly bool
	// HookTimeout bounds one hook or canUseTool; zero is 5 seconds.
	HookTimeout time.Duration
}
