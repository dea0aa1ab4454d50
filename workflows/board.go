package workflows

import (
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

var (
	attrStatus  = temporal.NewSearchAttributeKeyKeyword(protocol.AttrStatus)
	attrAgent   = temporal.NewSearchAttributeKeyKeyword(protocol.AttrAgent)
	attrPending = temporal.NewSearchAttributeKeyKeywordList(protocol.AttrPendingTool)
	attrRoot    = temporal.NewSearchAttributeKeyKeyword(protocol.AttrRoot)
)

// board is what a run shows to people who have only stock tools: current details, search attributes, memo.
// Each write of the latter two is work for the server, so they change only when the run starts, suspends,
// resumes and ends; an agent writes nothing in the task that begins a call which was allowed.
type board struct {
	attributes attributes
	// named says that agent and root were written, leaving that the run has ended for another one, which takes over what is
	// shown.
	named, leaving bool
	// lineage says where in a tree of agents the run stands, nil at its root.
	lineage *protocol.Lineage
	status  protocol.RunStatus
	// shown are the keys of the questions that are shown, memo those of them that are in the memo.
	shown, memo []string
	// active counts branches of the run that do not wait for an answer.
	active int
	agent  string
	// stop stops the timer after which an agent shows that it goes on; nil while none runs.
	stop func()
	// blocks are the questions in the details that are shown: those are rewritten on every change, a question never changes.
	blocks []rendered
}

// rendered is a question as it stands in the details: text is a part of them, so it takes no memory of its own.
type rendered struct{ key, text string }

func (b *board) busy() { b.active++ }

// free says that one branch has ended.
func (b *board) free(ctx workflow.Context, l *approval.Ledger) {
	b.active--
	b.suspend(ctx, l)
}

// idle says that one branch begins to wait. When none is left that does not, the run is suspended. The branch
// calls busy when it goes on.
func (b *board) idle(ctx workflow.Context, l *approval.Ledger) {
	b.active--
	b.details(ctx, l)
	b.suspend(ctx, l)
}

func (b *board) suspend(ctx workflow.Context, l *approval.Ledger) {
	switch {
	case b.suspended(l):
		b.show(ctx, l, protocol.StatusWaiting)
	case b.status == protocol.StatusWaiting && len(l.Asked()) == 0 && (b.active <= 0 || b.stop == nil):
		// The last question was refused, or its call has ended.
		b.show(ctx, l, protocol.StatusRunning)
	}
}

// suspended says that nothing goes on unless somebody answers.
func (b *board) suspended(l *approval.Ledger) bool { return b.active <= 0 && len(l.Keys()) > 0 }

// running says that a branch of a guarded workflow goes on after an answer. That is shown at once, so that a team's history gets
// no timers of ours.
func (b *board) running(ctx workflow.Context, l *approval.Ledger) {
	b.details(ctx, l)
	b.show(ctx, l, protocol.StatusRunning)
}

// signsStay is for how long an agent may show a question whose call runs.
const signsStay = time.Second

// goesOn says that a branch of an agent goes on after an answer. What the server has to index waits, because it would delay the
// call that begins now: a call that ends soon leaves it to what is true then, and a timer shows of others that they run.
func (b *board) goesOn(ctx workflow.Context, l *approval.Ledger) {
	b.details(ctx, l)
	if b.status != protocol.StatusWaiting || b.stop != nil {
		return
	}
	// Calls may go on for a while in a run that was cancelled.
	ctx, b.stop = workflow.NewDisconnectedContext(ctx)
	workflow.GoNamed(ctx, "assent signs", func(ctx workflow.Context) {
		timer := workflow.NewTimerWithOptions(ctx, signsStay, workflow.TimerOptions{Summary: "show that the agent goes on"})
		if !rang(timer.Get(ctx, nil)) || ctx.Err() != nil {
			// Something was shown meanwhile.
			return
		}
		if b.stop = nil; !b.suspended(l) {
			b.show(ctx, l, protocol.StatusRunning)
		}
	})
}

// start shows an agent that begins.
func (b *board) start(ctx workflow.Context, l *approval.Ledger, agent string) {
	b.agent = agent
	b.show(ctx, l, protocol.StatusRunning)
}

// end takes the signs down; nothing is written in runs that never put any up.
func (b *board) end(ctx workflow.Context, l *approval.Ledger, status protocol.RunStatus) {
	if b.status == "" && b.agent == "" {
		return
	}
	b.details(ctx, l)
	b.show(ctx, l, status)
}

// ends makes sure of what end will write, while the questions are still open: whatever blocks lets others go on.
func (b *board) ends(ctx workflow.Context, l *approval.Ledger, status protocol.RunStatus) {
	if b.status == "" && b.agent == "" || b.leaving || b.shows(status, signsOf(l, status)) {
		return
	}
	if b.attributes.doubtful(ctx) {
		b.attributes.sure(ctx)
	}
}

// resume is for a run that continues another: the server has copied its signs.
func (b *board) resume(ctx workflow.Context, attributes bool) {
	b.status = protocol.StatusRunning
	b.attributes.learn(ctx, &attributes)
}

// takeOver is resume for an agent, which knows what it showed.
func (b *board) takeOver(agent string, s protocol.BoardState) {
	b.agent, b.named, b.status, b.shown, b.memo = agent, true, s.Status, s.Shown, s.Memo
}

// signs are what operators see of the open questions of a suspended run.
type signs struct {
	keys, tools []string
	questions   []protocol.MemoQuestion
}

// mostInMemo bounds the questions in the memo: with each answer to one of them it is written anew.
const mostInMemo = 10

func signsOf(l *approval.Ledger, status protocol.RunStatus) signs {
	s := signs{questions: []protocol.MemoQuestion{}}
	if status != protocol.StatusWaiting {
		return s
	}
	// A larger value is refused by the server, for ever.
	room := 1 << 10
	for _, q := range l.Pending() {
		s.keys = append(s.keys, q.Key)
		if !slices.Contains(s.tools, q.Tool) && len(q.Tool) <= room {
			s.tools, room = append(s.tools, q.Tool), room-len(q.Tool)
		}
		if len(s.questions) < mostInMemo {
			s.questions = append(s.questions, protocol.MemoQuestion{Key: q.Key, Tool: q.Tool, Reason: short(q.Why, 200)})
		}
	}
	return s
}

// show writes search attributes and memo if they would change.
func (b *board) show(ctx workflow.Context, l *approval.Ledger, status protocol.RunStatus) {
	s := signsOf(l, status)
	if b.leaving || b.shows(status, s) {
		return
	}
	if b.attributes.doubtful(ctx) {
		b.attributes.sure(ctx)
		// Meanwhile others may have gone on, or have shown the same.
		if b.outdated(l, status) {
			return
		}
		if s = signsOf(l, status); b.shows(status, s) {
			return
		}
	}
	b.onTime()
	first := b.status == ""
	if b.attributes.has {
		updates := []temporal.SearchAttributeUpdate{attrStatus.ValueSet(string(status))}
		updates = append(updates, b.names(ctx)...)
		if !first || len(s.tools) > 0 {
			updates = append(updates, attrPending.ValueSet(s.tools))
		}
		if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
			workflow.GetLogger(ctx).Warn("assent: search attributes not written", "error", err)
		}
	}
	b.remember(ctx, l, status, s)
	b.status, b.shown = status, s.keys
}

// shows reports whether that is what people see already.
func (b *board) shows(status protocol.RunStatus, s signs) bool {
	return status == b.status && slices.Equal(s.keys, b.shown)
}

// outdated reports whether a status that was about to be shown is not that of the run any more.
func (b *board) outdated(l *approval.Ledger, status protocol.RunStatus) bool {
	switch status {
	case protocol.StatusWaiting:
		return !b.suspended(l)
	case protocol.StatusRunning:
		return b.suspended(l) || b.status == protocol.StatusDone
	}
	return false
}

// onTime stops the timer: what is true is shown now.
func (b *board) onTime() {
	if b.stop != nil {
		b.stop()
		b.stop = nil
	}
}

// names are written once: the agent's type, and the first of its tree.
func (b *board) names(ctx workflow.Context) []temporal.SearchAttributeUpdate {
	if b.named {
		return nil
	}
	b.named = true
	var updates []temporal.SearchAttributeUpdate
	root := workflow.GetInfo(ctx).WorkflowExecution.ID
	if b.agent != "" {
		updates = append(updates, attrAgent.ValueSet(b.agent))
	}
	if b.lineage != nil {
		root = b.lineage.Root
	}
	if b.agent != "" || b.lineage != nil {
		updates = append(updates, attrRoot.ValueSet(root))
	}
	return updates
}

// remember writes the memo if it would change. While very many questions are open it stays as it is when a guarded workflow goes
// on, perhaps for a moment: the first of them wait anyway.
func (b *board) remember(ctx workflow.Context, l *approval.Ledger, status protocol.RunStatus, s signs) {
	first := s.keys[:min(len(s.keys), mostInMemo)]
	if slices.Equal(first, b.memo) || status == protocol.StatusRunning && b.agent == "" && len(l.Keys()) > mostInMemo {
		return
	}
	if err := workflow.UpsertMemo(ctx, map[string]any{protocol.MemoPending: memo{s.questions, new(bool)}}); err != nil {
		workflow.GetLogger(ctx).Warn("assent: memo not written", "error", err)
	}
	b.memo = first
}

// changed says that a question is to be rendered anew.
func (b *board) changed(key string) {
	b.blocks = slices.DeleteFunc(b.blocks, func(o rendered) bool { return o.key == key })
}

// block returns the text of a question that the details have.
func (b *board) block(key string) (string, bool) {
	for _, o := range b.blocks {
		if o.key == key {
			return o.text, true
		}
	}
	return "", false
}

// details rewrites the Markdown that the Temporal UI shows on the workflow's page.
func (b *board) details(ctx workflow.Context, l *approval.Ledger) {
	list := l.List()
	if len(list.Pending) == 0 && len(list.Ignored) == 0 && len(list.Closed) == 0 && len(list.Granted) == 0 {
		return
	}
	var s strings.Builder
	info := workflow.GetInfo(ctx)
	signal := protocol.SignalApproval
	if info.WorkflowType.Name != protocol.WorkflowAgent {
		signal = protocol.GuardSignalApproval
	}
	const most = 20
	shown := make([]rendered, 0, min(most, len(list.Pending)))
	for i, q := range list.Pending {
		if i == most || s.Len() > mostPending {
			s.WriteString(unshown(len(list.Pending)-i, info.WorkflowExecution.ID, info.Namespace, signal))
			break
		}
		text, ok := b.block(q.Key)
		if !ok {
			text = pending(q, info.WorkflowExecution.ID, info.Namespace, signal)
		}
		s.WriteString(text)
		shown = append(shown, rendered{q.Key, text})
	}
	if len(list.Pending) == 0 {
		s.WriteString("Nothing waits for an answer.\n\n")
	}
	placeOf(info.WorkflowExecution.ID, info.Namespace, signal).granted(&s, list.Granted)
	closedList(&s, list)
	details, ours := beside(workflow.GetCurrentDetails(ctx), s.String())
	for i, o := range shown {
		shown[i].text, ours = ours[:len(o.text)], ours[len(o.text):]
	}
	b.blocks = shown
	workflow.SetCurrentDetails(ctx, details)
}

// What is between these is ours; the rest of a workflow's details is its own.
const (
	detailsBegin = "<!-- assent -->\n"
	detailsEnd   = "<!-- /assent -->\n"
)

// beside puts ours into details in place of what we wrote before, or at their end. It returns them, and ours as it stands in them.
func beside(details, ours string) (_, within string) {
	head, rest, found := strings.Cut(details, detailsBegin)
	tail := ""
	if found {
		_, tail, _ = strings.Cut(rest, detailsEnd)
	} else if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n\n"
	}
	at := len(head) + len(detailsBegin)
	details = head + detailsBegin + ours + detailsEnd + tail
	return details, details[at : at+len(ours)]
}
