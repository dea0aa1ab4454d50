package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/protocol"
)

// Config is what the worker gives to the gate. It holds no policy: that is asked of the worker by local activity.
type Config struct {
	// Decide, DecideTurn and Admit are the local activities: top-level functions, because a method value could be replaced
	// by an activity that somebody registers under its name.
	Decide, DecideTurn, Admit any
	// CheckAnswer says why an answer would not count, for updates, whose sender can be told at once. It must not change the
	// question. Nothing depends on it: Admit looks again. Nil lets every answer in; a panic refuses.
	CheckAnswer func(q approval.Approval, r approval.Resolution, now time.Time) error
	// Continue is the local activity that names the run to an agent which continued as new.
	Continue any
	// Spent is the local activity that says what agents have cost before a workflow was tried again; without it that is all.
	Spent any
	// Attributes is the local activity that asks whether search attributes can be written; nil never asks.
	Attributes any
	// DecideTimeout bounds one decision; zero means 2 s.
	DecideTimeout time.Duration
	// Keys sign grants.
	Keys protocol.Keyring
	// Converter is the team's data converter; nil means the SDK's default.
	Converter converter.DataConverter
	// Words says where refusals may hold what people say.
	Words protocol.Words
	// Guarded names activity types that are tools in workflows that are not agents, called in any way.
	Guarded map[string]protocol.ToolFacts
	// GuardedWorkflows names workflow types whose runs pass the gate before their first line.
	GuardedWorkflows map[string]protocol.ToolFacts
	// GuardedOperations names Nexus operations, as service/operation.
	GuardedOperations map[string]protocol.ToolFacts
	// Patience is how long a call waits for a worker that serves its frozen contract; zero means 10 minutes.
	Patience time.Duration
	// HostPatience is how long what only one host can do waits for it; zero means 5 minutes. After that an agent's worktree is
	// lost.
	HostPatience time.Duration
	// AgentQueue is where agents are spawned that name no queue; empty is the workflow's own, whose worker runs agents.
	AgentQueue string
	// Behind is told who gets the calls of each run after they were judged; nil looks at nobody.
	Behind func(interceptor.WorkflowOutboundInterceptor)
}

const (
	defaultDecideTimeout = 2 * time.Second
	defaultPatience      = 10 * time.Minute
	defaultHostPatience  = 5 * time.Minute
	driftPause           = 10 * time.Second
)

func (c *Config) validate() error {
	if c.Decide == nil || c.DecideTurn == nil || c.Admit == nil {
		return fault.Configf("workflows.Config", "Decide, DecideTurn and Admit are needed")
	}
	if c.DecideTimeout == 0 {
		c.DecideTimeout = defaultDecideTimeout
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	if c.HostPatience == 0 {
		c.HostPatience = defaultHostPatience
	}
	if c.Converter == nil {
		c.Converter = converter.GetDefaultDataConverter()
	}
	return nil
}

// gate is the state of one run: its questions, who waits for them, and what people are shown.
type gate struct {
	cfg    *Config
	ledger *approval.Ledger
	// mail holds the answers to each open question, also before its call waits for them: later calls of a turn may still be
	// judged.
	mail []*mailbox
	// standing are the allowed calls that have not ended, by key.
	standing map[string]*standing
	// vetted are the lines that people have added for this run. Requests that are on their way keep the list they have.
	vetted []protocol.VettedLine
	board  board
	// watchers hear of questions that close.
	watchers []Watcher
	// places bounds the local activities that run at once, other than those of one turn.
	places workflow.Semaphore
	// inbox holds answers that came after an encrypted one, which a coroutine has to read; spawn starts that.
	inbox []*commonpb.Payloads
	spawn func(workflow.Context, string, func(workflow.Context)) workflow.Context
	// notes counts the coroutines that note what a signal did not change, heard what came to this run: signals,
	// updates, reminders.
	notes, heard int32
	// own is true in our agent's workflow; open is false in runs that began before the gate existed. A parked run keeps its
	// gate, so what is small stands together.
	own, open bool
	// continued says that the server has continued another run of this agent. Until that run's questions are known, the gate
	// is deaf: signals come before the first line of the workflow.
	continued, deaf bool
	// leaving says that the next run takes over.
	leaving bool
	// passed says that this workflow type went through the gate in a run before this one.
	passed bool
	// dubious says that the agents above are not proved.
	dubious bool
	// anew says that the server has begun this run anew: by its schedule, or after one that failed.
	anew bool
	// named counts our own handler registrations by name.
	named map[string]bool
	// nextCall numbers the guarded calls of a workflow that is not an agent, through all its runs.
	nextCall int
	// kin are the children of the run, whose own place in a tree of agents the board has. line is set in an agent: itself,
	// behind those whose policy it has, which is all that anybody below can inherit.
	kin  *family
	line []protocol.Parent
}

// handlers are the names under which a run can be asked and answered.
type handlers struct{ signal, update, query string }

var (
	agentHandlers = handlers{protocol.SignalApproval, protocol.UpdateResolve, protocol.QueryApprovals}
	guardHandlers = handlers{protocol.GuardSignalApproval, protocol.GuardUpdateResolve, protocol.GuardQueryApprovals}
)

type gateKey struct{}

func newGate(cfg *Config, own, continued bool) *gate {
	// Maps are made when something is to be put into them: a run that waits has nothing in most of them.
	g := &gate{cfg: cfg, own: own, continued: continued, deaf: continued, ledger: approval.NewLedger()}
	if cfg.Attributes != nil {
		g.board.attributes.ask = func(ctx workflow.Context) workflow.Future {
			return workflow.ExecuteLocalActivity(g.local(ctx), cfg.Attributes)
		}
	}
	return g
}

// names are those under which this run can be asked and answered.
func (g *gate) names() *handlers {
	if g.own {
		return &agentHandlers
	}
	return &guardHandlers
}

// mostAtOnce bounds the local activities of a run: with each that ends the SDK wakes every coroutine.
const mostAtOnce = 32

// place waits for a place to run a local activity, and returns what gives it back.
func (g *gate) place(ctx workflow.Context) (leave func()) {
	if g.places == nil {
		g.places = workflow.NewSemaphore(ctx, mostAtOnce)
	}
	if g.places.Acquire(ctx, 1) != nil {
		// The run was cancelled; what is left to do is done without a place.
		return func() {}
	}
	return func() { g.places.Release(1) }
}

// registered reports whether name was registered before, and remembers it.
func (g *gate) registered(name string) bool {
	was := g.named[name]
	if g.named == nil {
		g.named = map[string]bool{}
	}
	g.named[name] = true
	return was
}

// gateFrom returns the gate that the interceptor put into the context, or nil on a worker without it.
func gateFrom(ctx workflow.Context) *gate {
	g, _ := ctx.Value(gateKey{}).(*gate)
	return g
}

// answer is an accepted resolution on its way to the call that waits.
type answer struct {
	resolution approval.Resolution
	via        string
}

func (a answer) by() string { return short(a.resolution.By, mostBy) }

// signal takes an answer that came as a signal. It may settle a future, not block: an answer that is not encrypted is
// taken outside of any coroutine.
func (g *gate) signal(ctx workflow.Context, args *commonpb.Payloads) {
	g.heard++
	var resolutions []approval.Resolution
	data, err := g.received(ctx, args)
	if err == nil {
		resolutions, err = approval.Decode(data, g.ledger.Asked(), g.ledger.Standing())
	}
	if err != nil {
		why, key, by := err.Error(), "", ""
		if bad := new(approval.DecodeError); errors.As(err, &bad) {
			key, by = short(bad.Key, mostSummary), short(bad.By, mostBy)
			if g.forwarded(ctx, data, bad) {
				return
			}
			if how := g.ledger.Ended(bad.Key); how != "" {
				why += ", it was " + string(how) + " before"
			}
		}
		if len(args.GetPayloads()) > 1 {
			why += "; " + onlyFirst
		}
		g.ignore(ctx, approval.Ignored{Key: key, By: by, Via: viaSignal, Why: why})
	} else if len(args.GetPayloads()) > 1 {
		g.ignore(ctx, approval.Ignored{Via: viaSignal, Why: "answer ignored: " + onlyFirst})
	}
	for _, r := range resolutions {
		g.take(ctx, r, viaSignal)
	}
	g.board.details(ctx, g.ledger)
}

const onlyFirst = "more than one came in a signal, only the first counts"

const (
	viaSignal   = "signal"
	viaUpdate   = "update"
	viaApprover = "approver"
	viaTimer    = "timer"
	viaWorkflow = "workflow"
)

// take hands an answer to the call that waits for it. It reports whether a revoked call was on its way already.
func (g *gate) take(ctx workflow.Context, r approval.Resolution, via string) (dispatched bool) {
	box, a := g.box(r.Key), answer{r, via}
	refuse := func(why string) bool {
		g.ignore(ctx, approval.Ignored{Key: short(r.Key, mostSummary), By: a.by(), Via: via, Why: why})
		return false
	}
	switch {
	case box == nil && r.Decision == approval.Revoke:
		return g.revoke(ctx, r, via)
	case box == nil:
		err := g.ledger.Check(r.Key)
		if err == nil {
			// A question that is open has a mailbox.
			return refuse("nobody waits for it")
		}
		return refuse(err.Error())
	case box.late() && !(r.Decision == approval.Revoke && g.ledger.Answered(r.Key)):
		// An allow of before that is still being admitted is revoked.
		return refuse("approval " + quoted(r.Key) + ": its deadline has passed")
	case len(box.answers) >= mostAnswers && (box.revoked || r.Decision != approval.Revoke):
		return refuse("too many answers to this question came at once")
	}
	// The first one takes the question from the list of those that can be answered.
	_ = g.ledger.Answer(r.Key)
	box.post(a)
	return false
}

// ignore notes an answer that changed nothing. A signal is handled before its workflow task has a time: until then
// the clock stands at the task before, perhaps days ago.
func (g *gate) ignore(ctx workflow.Context, i approval.Ignored) {
	if i.Via != viaSignal {
		g.note(ctx, i)
		return
	}
	g.notes++
	g.spawn(ctx, "assent ignored", func(ctx workflow.Context) {
		defer func() { g.notes-- }()
		g.note(ctx, i)
		g.board.details(ctx, g.ledger)
	})
}

// note is ignore for where the clock goes.
func (g *gate) note(ctx workflow.Context, i approval.Ignored) {
	workflow.GetLogger(ctx).Warn("assent: answer ignored", "key", i.Key, "by", i.By, "reason", i.Why)
	i.At = workflow.Now(ctx)
	g.ledger.Ignore(i)
}

func quoted(key string) string { return fmt.Sprintf("%q", short(key, mostSummary)) }

// register installs the query and the update. Both return at once. Updates that have come already have their turn at once, so
// an agent that continues installs theirs when it has its questions.
func (g *gate) register(ctx workflow.Context) error {
	if err := workflow.SetQueryHandlerWithOptions(ctx, g.names().query, func() (approval.List, error) {
		l := fitList(g.ledger.List())
		l.Children = g.children()
		return l, nil
	}, workflow.QueryHandlerOptions{Description: "Open, answered and ignored questions"}); err != nil || g.deaf {
		return err
	}
	return g.takeUpdates(ctx)
}

// A second argument is taken so that it can be refused: the SDK drops those that a handler has no parameter for.
func (g *gate) takeUpdates(ctx workflow.Context) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, g.names().update,
		func(ctx workflow.Context, raw, _ converter.RawValue) (protocol.Accepted, error) {
			r, err := g.parse(ctx, raw, true)
			if err != nil {
				return protocol.Accepted{}, err
			}
			g.heard++
			if g.elsewhere(r.Key) {
				return g.forward(ctx, r, viaUpdate)
			}
			dispatched := g.take(ctx, r, viaUpdate)
			g.board.details(ctx, g.ledger)
			return accepted(r, dispatched), nil
		},
		workflow.UpdateHandlerOptions{Description: "Answers a question: {key, decision, reason, by}", Validator: func(ctx workflow.Context, raw, more converter.RawValue) error {
			if more.Payload() != nil {
				return temporal.NewNonRetryableApplicationError("bad answer: an update takes one argument, with one answer", protocol.ErrorBadAnswer, nil)
			}
			r, err := g.parse(ctx, raw, false)
			if err != nil {
				return err
			}
			return g.checkUpdate(ctx, r)
		}})
}

// checkUpdate refuses an answer that would change nothing. It never runs in a replay, so it may ask the worker.
func (g *gate) checkUpdate(ctx workflow.Context, r approval.Resolution) error {
	q, open := g.ledger.Question(r.Key)
	switch {
	case g.leaving:
		return notPending("the run goes on in another one: send the answer again")
	case g.elsewhere(r.Key):
		// Only a child knows.
		return nil
	case !open && r.Decision == approval.Revoke:
		return g.checkRevoke(r.Key)
	case !open:
		return notPending(g.ledger.Check(r.Key).Error())
	case g.ledger.Answered(r.Key) && q.Needs() == 1 && r.Decision != approval.Revoke:
		return notPending(g.ledger.Check(r.Key).Error() + "; the answer is being looked at")
	}
	if box := g.box(r.Key); box != nil && box.late() && r.Decision != approval.Revoke {
		return notPending("approval " + quoted(r.Key) + ": its deadline has passed")
	}
	if g.cfg.CheckAnswer == nil {
		return nil
	}
	if err := g.checkAnswer(ctx, q, r); err != nil {
		return temporal.NewNonRetryableApplicationError("answer refused: "+short(err.Error(), mostReason), protocol.ErrorBadAnswer, nil)
	}
	return nil
}

// checkAnswer asks the worker. Of a panic the sender is told no more than that: the SDK would send the worker's stack along.
func (g *gate) checkAnswer(ctx workflow.Context, q approval.Approval, r approval.Resolution) (err error) {
	defer func() {
		if p := recover(); p != nil {
			workflow.GetLogger(ctx).Error("assent: the check of an answer panicked", "key", q.Key, "panic", p)
			err = errors.New("it could not be checked")
		}
	}()
	return g.cfg.CheckAnswer(q, r, workflow.Now(ctx))
}

func notPending(why string) error {
	return temporal.NewNonRetryableApplicationError(why, protocol.ErrorNotPending, nil)
}

func (g *gate) parse(ctx workflow.Context, raw converter.RawValue, recorded bool) (approval.Resolution, error) {
	r, err := approval.Resolution{}, error(&approval.DecodeError{Why: "it is empty"})
	if raw.Payload() != nil {
		var data []byte
		if data, err = g.updated(ctx, raw, recorded); err == nil {
			r, err = approval.Parse(data)
		}
	}
	if bad := new(approval.DecodeError); errors.As(err, &bad) {
		err = temporal.NewNonRetryableApplicationError("bad answer: "+bad.Why, protocol.ErrorBadAnswer, nil)
	}
	return r, err
}

// finish closes what is still open when a run ends and shows its last status.
func (g *gate) finish(ctx workflow.Context, why string, status protocol.RunStatus) {
	// From here on nothing blocks: an answer that is on its way would meet a question that is closed.
	g.board.ends(ctx, g.ledger, status)
	pending := g.ledger.List().Pending
	for _, key := range g.ledger.Asked() {
		if box := g.box(key); box != nil {
			g.mail = remove(g.mail, box)
			for _, a := range box.answers {
				g.note(ctx, approval.Ignored{Key: key, By: a.by(), Via: a.via, Why: why})
			}
		}
		c := approval.Closed{Key: key, How: approval.Abandoned, Reason: why, At: workflow.Now(ctx), Via: viaWorkflow}
		g.ledger.Close(c)
		if i := slices.IndexFunc(pending, func(q approval.Approval) bool { return q.Key == key }); i >= 0 {
			g.told(ctx, pending[i], c)
		}
	}
	for _, key := range g.ledger.Standing() {
		// The server ends what still runs.
		g.ledger.End(key, "")
	}
	g.board.end(ctx, g.ledger, status)
}

// ends makes sure of what leave will write. Others go on meanwhile, and may start agents, so it comes before these are counted.
func (g *gate) ends(ctx workflow.Context, err error) {
	var next *workflow.ContinueAsNewError
	status := protocol.StatusDone
	if errors.As(err, &next) && !g.own && g.orphans() == "" {
		status = protocol.StatusRunning
	}
	if !g.leaving {
		g.board.ends(ctx, g.ledger, status)
	}
}

// leave is the end of a run. One that continues as new hands on what the next one has to know.
func (g *gate) leave(ctx workflow.Context, err error) {
	var next *workflow.ContinueAsNewError
	if g.leaving {
		return
	}
	if !errors.As(err, &next) || g.own {
		g.finish(ctx, "the workflow ended", protocol.StatusDone)
		return
	}
	g.finish(ctx, "the workflow continued as new", protocol.StatusRunning)
	g.carry(ctx, next)
}
