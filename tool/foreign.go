package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/assent-dev/assent/fault"
)

// RemoteKind says what a Remote is.
type RemoteKind string

// The kinds of a Remote.
const (
	RemoteActivity RemoteKind = "activity"
	RemoteWorkflow RemoteKind = "workflow"
)

// Remote says which activity or workflow of a team's own runs a tool. It is plain data, complete and frozen with its
// Info: what is left to a default is filled in where the tool is defined.
type Remote struct {
	Kind RemoteKind `json:"kind"`
	// Type is the name under which workers have registered it.
	Type string `json:"type"`
	// TaskQueue is where those workers poll; empty is the agent's own queue.
	TaskQueue string `json:"taskQueue,omitempty"`
	// Positional names the properties that are passed as one argument each; nil passes the whole object as one.
	Positional []string `json:"positional,omitzero"`
	Timeouts   Timeouts `json:"timeouts"`
	Retry      Retry    `json:"retry"`
}

// DefaultStartToClose bounds one attempt of an activity, or one run of a workflow, that says nothing else.
const DefaultStartToClose = 10 * time.Minute

// repeats is how often a read-risk or idempotent activity is tried unless it says otherwise.
const repeats = 3

// Timeouts are the bounds of a tool that is an activity or a workflow. Zero fields have a default; negative ones are a
// *fault.ConfigError. It is an Option of FromActivity and FromWorkflow alone.
type Timeouts struct {
	// StartToClose bounds one attempt of an activity or one run of a workflow, which the server ends without asking it.
	// Zero is the tool's Timeout, else ScheduleToClose, else DefaultStartToClose.
	StartToClose time.Duration `json:"startToCloseNs,omitempty"`
	// ScheduleToClose bounds all attempts together. Zero is no bound.
	ScheduleToClose time.Duration `json:"scheduleToCloseNs,omitempty"`
	// ScheduleToStart bounds the wait for a worker; a workflow has none. Zero is as long as the engine waits for a worker
	// of its own.
	ScheduleToStart time.Duration `json:"scheduleToStartNs,omitempty"`
	// Heartbeat is how soon a silent activity is given up, and the only way it hears of a cancellation. Zero expects no
	// heartbeats; a workflow has none.
	Heartbeat time.Duration `json:"heartbeatNs,omitempty"`
}

func (t Timeouts) apply(_ *Info, c *choices) { c.timeouts = &t }

// Retry says how often and when an activity or a workflow is tried again. It is an Option of FromActivity and
// FromWorkflow alone. Without it an activity is tried once, or three times if it is read-risk or idempotent, and a
// workflow once. Saying Retry of a tool that is neither means that repeating its effect is all right.
type Retry struct {
	// MaximumAttempts counts the first one too. Zero is without end and needs a ScheduleToClose.
	MaximumAttempts int `json:"maximumAttempts"`
	// InitialInterval is the first pause, one second if zero. Each pause is BackoffCoefficient times as long as the one
	// before, twice if zero, up to MaximumInterval, a hundred times the first if zero.
	InitialInterval    time.Duration `json:"initialIntervalNs,omitempty"`
	MaximumInterval    time.Duration `json:"maximumIntervalNs,omitempty"`
	BackoffCoefficient float64       `json:"backoffCoefficient,omitempty"`
	// NonRetryable are types of application errors that end the call at once.
	NonRetryable []string `json:"nonRetryable,omitempty"`
}

func (r Retry) apply(_ *Info, c *choices) { c.retry = &r }

// Positional passes the named properties of the arguments one by one, in this order, for an activity or a workflow that
// takes several arguments; an absent one is passed as null. Every property has to be named, because what is not passed
// would be approved and never arrive; no names call a function that takes nothing. It is an Option of FromActivity and
// FromWorkflow alone.
func Positional(names ...string) Option {
	return optionFunc(func(_ *Info, c *choices) { c.positional = append([]string{}, names...) })
}

// FromActivity makes a tool of an activity that a team already has, in any language, on any worker: it needs no code of
// ours. activityType is its registered name, taskQueue where its workers poll, "" for the agent's own queue. The activity
// gets the arguments as one JSON object, see Positional, and returns JSON. It runs in agents only. Everything wrong with
// the definition is a *fault.ConfigError.
func FromActivity(name, description string, schema json.RawMessage, activityType, taskQueue string, opts ...Option) (*Def, error) {
	return fromRemote(Remote{Kind: RemoteActivity, Type: activityType, TaskQueue: taskQueue}, name, description, schema, opts)
}

// FromWorkflow is FromActivity for a workflow, which runs as a child of the agent. Agents are refused: they are spawned.
func FromWorkflow(name, description string, schema json.RawMessage, workflowType, taskQueue string, opts ...Option) (*Def, error) {
	return fromRemote(Remote{Kind: RemoteWorkflow, Type: workflowType, TaskQueue: taskQueue}, name, description, schema, opts)
}

func fromRemote(r Remote, name, description string, schema json.RawMessage, opts []Option) (*Def, error) {
	d := &Def{info: Info{Name: name, Description: description, Remote: &r}}
	d.run = func(context.Context, *Context, json.RawMessage, json.RawMessage) (any, error) {
		return nil, fmt.Errorf("the tool %q is %s and runs in an agent only", name, r)
	}
	if err := d.complete(schema, false, opts); err != nil {
		return nil, err
	}
	if r := d.info.Remote; r.Positional != nil {
		d.check = func(_, canonical json.RawMessage) []Issue { return unnamed(canonical, r.Positional) }
	}
	return d, nil
}

// String names the activity or workflow and its queue.
func (r Remote) String() string {
	if r.TaskQueue == "" {
		return fmt.Sprintf("the %s %q", r.Kind, r.Type)
	}
	return fmt.Sprintf("the %s %q on task queue %q", r.Kind, r.Type, r.TaskQueue)
}

// Clone returns a deep copy; nil stays nil.
func (r *Remote) Clone() *Remote {
	if r == nil {
		return nil
	}
	c := *r
	c.Positional, c.Retry.NonRetryable = slices.Clone(r.Positional), slices.Clone(r.Retry.NonRetryable)
	return &c
}

// Arguments are the values to pass for an input: the object itself, or the named properties.
func (r Remote) Arguments(input json.RawMessage) ([]json.RawMessage, error) {
	if r.Positional == nil {
		return []json.RawMessage{input}, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(input, &members); err != nil {
		return nil, fmt.Errorf("read arguments of %q: %w", r.Type, err)
	}
	out := make([]json.RawMessage, 0, len(r.Positional))
	for _, name := range r.Positional {
		value, ok := members[name]
		if !ok {
			value = json.RawMessage("null")
		}
		out = append(out, value)
	}
	return out, nil
}

// unnamed finds members that no argument stands for; a schema may allow any.
func unnamed(canonical json.RawMessage, names []string) []Issue {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(canonical, &members); err != nil {
		return []Issue{{Message: message(err)}}
	}
	var out []Issue
	for _, m := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(names, m) {
			out = append(out, Issue{Pointer: "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(m),
				Message: "is not an argument of this tool"})
		}
	}
	return out
}

// remote completes and checks what a tool says about where it runs. properties are those of its schema.
func (d *Def) remote(said choices, properties []string) error {
	r := d.info.Remote
	if r == nil {
		if said.timeouts != nil || said.retry != nil || said.positional != nil {
			return fault.Configf(d.key(), "Timeouts, Retry and Positional are for FromActivity and FromWorkflow; a tool of this process has Timeout")
		}
		return nil
	}
	if d.info.Executor != "" {
		return fault.Configf(d.key()+".executor", "cannot be chosen: %s runs on its own worker", r)
	}
	if err := checkRemoteType(d.key()+"."+string(r.Kind), r.Type); err != nil {
		return err
	}
	if err := checkQueue(d.key()+".taskQueue", r.TaskQueue); err != nil {
		return err
	}
	if err := d.timeouts(said); err != nil {
		return err
	}
	if err := d.retry(said); err != nil {
		return err
	}
	return d.positional(said, properties)
}

// ownActivities are activity types of the engine; a test holds them against the protocol.
var ownActivities = []string{"AcquireWorktree", "CollectWorktree", "DisposeWorktree", "Generate", "Observe", "ReceiveResult", "ResolveRef", "ResolveToolset"}

// ownPrefixes start names of the engine's or of Temporal's.
var ownPrefixes = []string{"assent.", "Assent", "tool.", "__temporal"}

func checkRemoteType(key, name string) error {
	if err := checkText(key, name); err != nil {
		return err
	}
	switch {
	case name == "":
		return fault.Configf(key, "has no type; want the name under which it is registered")
	case name == "assent.Agent":
		return fault.Configf(key, "an agent is no tool: agents are spawned, within a budget")
	case slices.Contains(ownActivities, name):
		return fault.Configf(key, "%q is an activity of the engine", name)
	}
	for _, p := range ownPrefixes {
		if strings.HasPrefix(name, p) {
			return fault.Configf(key, "%q is reserved: types do not begin with %q", name, p)
		}
	}
	return nil
}

func checkQueue(key, name string) error {
	if strings.HasPrefix(name, "/_sys/") || strings.HasPrefix(name, "__temporal") {
		return fault.Configf(key, "%q is reserved by Temporal", name)
	}
	return checkText(key, name)
}

// mostName is below what a server takes as a name; one that it refuses would fail a workflow task for ever.
const mostName = 200

func checkText(key, text string) error {
	odd := func(r rune) bool { return unicode.IsControl(r) }
	switch {
	case len(text) > mostName:
		return fault.Configf(key, "has %d bytes, at most %d are taken", len(text), mostName)
	case !utf8.ValidString(text), strings.ContainsFunc(text, odd), strings.TrimSpace(text) != text:
		return fault.Configf(key, "%q is no name: want text without control characters or spaces around it", text)
	}
	return nil
}

func (d *Def) timeouts(said choices) error {
	r := d.info.Remote
	if said.timeouts != nil {
		r.Timeouts = *said.timeouts
	}
	t := &r.Timeouts
	for _, one := range []struct {
		name    string
		value   time.Duration
		ofWaits bool
	}{
		{"startToClose", t.StartToClose, false}, {"scheduleToClose", t.ScheduleToClose, false},
		{"scheduleToStart", t.ScheduleToStart, true}, {"heartbeat", t.Heartbeat, true},
	} {
		switch {
		case one.value < 0:
			return fault.Configf(d.key()+"."+one.name, "is negative: %s", one.value)
		case one.value > 0 && one.ofWaits && r.Kind == RemoteWorkflow:
			return fault.Configf(d.key()+"."+one.name, "is for activities; a workflow has none")
		}
	}
	for _, other := range []time.Duration{d.info.Timeout, t.ScheduleToClose, DefaultStartToClose} {
		if t.StartToClose == 0 {
			t.StartToClose = other
		}
	}
	return nil
}

func (d *Def) retry(said choices) error {
	r := d.info.Remote
	if said.retry == nil {
		r.Retry.MaximumAttempts = 1
		if r.Kind == RemoteActivity && d.info.Repeatable() {
			r.Retry.MaximumAttempts = repeats
		}
		return nil
	}
	r.Retry = *said.retry
	r.Retry.NonRetryable = slices.Clone(said.retry.NonRetryable)
	p := r.Retry
	first := p.InitialInterval
	if first == 0 {
		first = time.Second
	}
	key := d.key() + ".retry"
	switch {
	case p.MaximumAttempts < 0 || p.MaximumAttempts > math.MaxInt32:
		return fault.Configf(key, "%d attempts cannot be made", p.MaximumAttempts)
	case p.MaximumAttempts == 0 && r.Timeouts.ScheduleToClose == 0:
		return fault.Configf(key, "attempts without end need a ScheduleToClose; else say MaximumAttempts")
	case p.InitialInterval < 0 || p.MaximumInterval < 0:
		return fault.Configf(key, "an interval is negative")
	case p.MaximumInterval > 0 && p.MaximumInterval < first:
		return fault.Configf(key, "MaximumInterval (%s) is shorter than the first interval (%s)", p.MaximumInterval, first)
	case p.MaximumInterval == 0 && first > math.MaxInt64/100:
		return fault.Configf(key, "a hundred times InitialInterval (%s) is more than a server can count; say MaximumInterval", first)
	case p.BackoffCoefficient != 0 && !(p.BackoffCoefficient >= 1 && p.BackoffCoefficient <= 1000):
		return fault.Configf(key, "BackoffCoefficient %v is not from 1 to 1000", p.BackoffCoefficient)
	}
	for _, t := range p.NonRetryable {
		if err := checkText(key, t); err != nil {
			return err
		}
		if t == "" || strings.HasPrefix(t, "TemporalTimeout:") {
			return fault.Configf(key, "%q is not a type of application errors", t)
		}
	}
	return nil
}

func (d *Def) positional(said choices, properties []string) error {
	names := said.positional
	if names == nil {
		return nil
	}
	key := d.key() + ".positional"
	for i, n := range names {
		switch {
		case slices.Contains(names[:i], n):
			return fault.Configf(key, "%q is named twice", n)
		case !slices.Contains(properties, n):
			return &fault.ConfigError{Key: key, Msg: fmt.Sprintf("%q is not a property of the parameters", n), Allowed: properties}
		}
	}
	for _, p := range properties {
		if !slices.Contains(names, p) {
			return fault.Configf(key, "the property %q is not named and would never arrive", p)
		}
	}
	d.info.Remote.Positional = slices.Clone(names)
	return nil
}

// properties are the names of the top-level properties of an object schema, sorted.
func properties(schema json.RawMessage) []string {
	// Maps, because the names of struct fields are matched in any case.
	var keywords, names map[string]json.RawMessage
	if json.Unmarshal(schema, &keywords) != nil || json.Unmarshal(keywords["properties"], &names) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(names))
}
