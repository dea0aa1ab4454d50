package verify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// matches holds a use against its permit: arguments, contract, policy, run, approval, signature.
func (j *judged) matches() {
	if j.p.input != nil {
		if sum, err := digest(j.p.input); err != nil || sum != j.p.digest {
			j.fail(OtherInput, "the arguments in history are not those whose digest was decided on")
		}
	}
	j.arguments()
	if g := j.grant; g != nil {
		whole := *g
		if j.use.call != nil {
			// Its worker has filled in the contract of the tool that it serves, and the digest of what it was sent: both are held
			// against the decision here.
			whole = g.Full(protocol.Grant{ContractHash: j.p.contract, InputDigest: j.p.digest})
		}
		j.bound(&whole)
	}
	if c := j.use.call; c != nil {
		if c.ID != j.call.CallID || c.Name != j.call.Tool {
			j.fail(OtherCall, "its argument is the call %q of %q", c.ID, c.Name)
		}
		if !protocol.SameContract(c.ContractHash, j.p.contract) {
			j.fail(OtherContract, "it is for the contract %s, and %s was frozen", short(c.ContractHash), short(j.p.contract))
		}
		j.origin(c)
		if j.q != nil && (c.Approved == nil || c.Approved.Key != j.q.key) || j.q == nil && c.Approved != nil {
			j.fail(OtherCall, "it names another approval than %q, under which it was asked about", j.call.Key)
		}
	}
	if j.agent && j.frozen == nil {
		j.fail(OtherContract, "the history has no frozen toolset")
	}
}

// origin holds where a call's tool comes from, and how it runs, against the frozen toolset. Grants of before it bind neither.
func (j *judged) origin(c *tool.Call) {
	f, known := j.facts[j.call.Tool]
	if !known {
		return
	}
	if c.Source != f.Source {
		j.fail(OtherContract, "it is for the source %q, and a tool of %q was frozen", c.Source, f.Source)
	}
	if j.typ != f.Activity() {
		j.fail(OtherContract, "it runs as %q, and %q was frozen", j.typ, f.Activity())
	}
}

// bound holds a grant against the permit.
func (j *judged) bound(g *protocol.Grant) {
	if g.InputDigest != j.p.digest {
		j.fail(OtherInput, "its grant is for the arguments %s, and %s were decided on", short(g.InputDigest), short(j.p.digest))
	}
	if g.PolicyDigest != protocol.NamedPolicy(j.p.policy) && g.PolicyDigest != j.p.policy {
		j.fail(OtherPolicy, "its grant is under the policy %s, and it was decided under %s", short(g.PolicyDigest), short(j.p.policy))
	}
	if g.ContractHash != j.p.contract {
		j.fail(OtherContract, "its grant is for the contract %s, and %s was frozen", short(g.ContractHash), short(j.p.contract))
	}
	if f := j.facts[j.call.Tool]; g.Source != f.Source {
		j.fail(OtherContract, "its grant is for the source %q, and a tool of %q was frozen", g.Source, f.Source)
	}
	if c := j.use.call; c != nil && g.MAC != "" && (g.Terms != "" || c.Agent != nil) && g.Terms != protocol.Terms(*c) {
		j.fail(OtherCall, "its grant is for another directory, agent, approval or policy than its argument says")
	}
	if g.RunID != j.p.run {
		j.fail(OtherRun, "its grant is of run %s, and run %s decided", g.RunID, j.p.run)
	}
	if g.Expires != j.p.expires {
		j.fail(Expired, "its grant holds until %s, and it was allowed until %s", until(g.Expires), until(j.p.expires))
	}
	if j.options.Keys.Empty() {
		if g.MAC != "" {
			j.note("signatures of grants: no key was given")
		}
		return
	}
	place := protocol.Place{Namespace: j.options.Namespace, WorkflowID: j.out.WorkflowID, ActivityType: j.typ, ActivityID: j.id}
	// In time it is another question, and the same moment for all grants.
	if err := j.options.Keys.Verify(*g, place, "", time.Unix(0, 0)); err != nil {
		j.fail(BadSignature, "%v", err)
	}
}

// arguments holds what was sent to the worker against what was decided on.
func (j *judged) arguments() {
	switch c := j.use.call; {
	case j.way == byLocal:
		j.note("the arguments of local activities: they are not in history")
	case c != nil && c.InputRef != nil:
		if len(c.Input) > 0 || !sameRef(c.InputRef, j.p.ref) {
			j.fail(OtherInput, "its arguments are blob %s, and %s were decided on", refText(c.InputRef), refText(j.p.ref))
			return
		}
		j.note("event %d: the bytes of its arguments, blob %s: the worker held them against the digest %s", j.event, refText(c.InputRef), short(j.p.digest))
	case c != nil:
		j.hold(c.Input)
	case j.agent:
		j.foreign()
	default:
		input, err := j.judgedInput(j.args)
		if err != nil {
			j.fail(Unreadable, "its arguments cannot be read: %v", err)
			return
		}
		j.hold(input)
	}
}

// judgedInput is what the guard makes of the arguments of a team's own activity, workflow or operation.
func (r *record) judgedInput(args *commonpb.Payloads) (json.RawMessage, error) {
	list := make([]json.RawMessage, 0, len(args.GetPayloads()))
	for i, p := range args.GetPayloads() {
		v := r.value(p)
		if v == nil && p != nil {
			return nil, fmt.Errorf("argument %d cannot be decoded", i+1)
		}
		list = append(list, protocol.Argument(string(v.GetMetadata()[converter.MetadataEncoding]), v.GetData()))
	}
	return protocol.Input(list)
}

// hold compares arguments with the digest that was decided on.
func (j *judged) hold(input json.RawMessage) {
	switch sum, err := digest(input); {
	case err != nil:
		j.fail(OtherInput, "its arguments are no JSON: %v", err)
	case sum != j.p.digest:
		j.fail(OtherInput, "its arguments have the digest %s, and %s were decided on", short(sum), short(j.p.digest))
	}
}

// foreign compares what the worker of somebody else was sent with what its tool makes of the decided arguments.
func (j *judged) foreign() {
	f, known := j.facts[j.call.Tool]
	if !known && j.frozen == nil {
		j.fail(Unreadable, "what the tool %q runs cannot be read", j.call.Tool)
		return
	}
	r := f.Remote
	if r == nil || r.Type != j.typ || ways[r.Kind] != j.way {
		j.fail(OtherCall, "%s %q is not what the tool %q runs", j.way, j.typ, j.call.Tool)
		return
	}
	if j.p.input == nil {
		j.fail(Unreadable, "the arguments that were decided on are not in history")
		return
	}
	for i, p := range j.args.GetPayloads() {
		if j.value(p) == nil {
			j.fail(Unreadable, "argument %d cannot be decoded", i+1)
			return
		}
	}
	want, err := r.Arguments(j.p.input)
	if err != nil || !slices.EqualFunc(want, j.args.GetPayloads(), func(w json.RawMessage, p *commonpb.Payload) bool {
		return same(w, j.value(p).GetData())
	}) {
		j.fail(OtherInput, "its arguments are not those that were decided on")
	}
}

func sameRef(a, b *blob.Ref) bool { return a != nil && b != nil && a.Same(*b) }

func refText(r *blob.Ref) string {
	if r == nil {
		return "none"
	}
	return short(r.SHA256)
}

// ownIDs starts the ids that the gate gives to calls of a guarded workflow.
const ownIDs = "assent-"

// once says whether a permission was used again after its call may have run. A call that was decided on once more is
// the same call, unless a team's workflow gave it its activity id: that may be used again when its activity has ended.
func (j *judged) once() {
	before := slices.Clone(j.spent[j.index])
	if j.agent || strings.HasPrefix(j.call.CallID, ownIDs) {
		before = nil
		for _, i := range j.byCall[j.call.CallID] {
			before = append(before, j.spent[i]...)
		}
	}
	if !j.retried {
		j.spent[j.index] = append(j.spent[j.index], j.use)
	}
	for _, u := range before {
		switch {
		case u.id == j.id:
			j.fail(UsedTwice, "event %d scheduled the same call before", u.event)
		case !u.idled() || u.ended > j.event:
			j.fail(UsedTwice, "event %d scheduled the same call before, and it may have run", u.event)
		default:
			continue
		}
		return
	}
}

// inTime says whether a call began when it was no longer allowed, or in a run that was not allowed.
func (j *judged) inTime() {
	if run := j.runAt(j.ended); j.ended != 0 && run != "" && run != j.p.run {
		j.afterReset(run)
	}
	if j.p.expires == 0 || j.refused() || j.way == byNexus {
		return
	}
	switch {
	case j.at.Unix() > j.p.expires && !j.idle:
		j.fail(Expired, "it was allowed until %s and scheduled at %s", until(j.p.expires), until(j.at.Unix()))
	case j.attempt == 1 && j.begun.Unix() > j.p.expires && (j.ended == 0 || j.ran()):
		// Of later attempts the history has the last one's time alone.
		j.fail(Expired, "it was allowed until %s and began at %s", until(j.p.expires), until(j.begun.Unix()))
	}
}

// afterReset judges a call that ended in another run than the one that permitted it.
func (j *judged) afterReset(run string) {
	switch {
	case j.own() && j.ran() && !j.facts[j.call.Tool].Repeatable():
		j.fail(OtherRun, "it was permitted in run %s and ran in run %s, where it must not be repeated", j.p.run, run)
	case !j.own() && j.way != byLocal && !j.refused():
		j.note("event %d: %q was in flight when the run was reset, and may have run in both runs: its own worker does not know", j.event, j.typ)
	}
}

func until(unix int64) string {
	if unix == 0 {
		return "for ever"
	}
	return time.Unix(unix, 0).UTC().Format(time.RFC3339)
}

// short is the beginning of a digest.
func short(sum string) string {
	const most = 12
	switch {
	case sum == "":
		return "none"
	case len(sum) > most:
		return sum[:most]
	}
	return sum
}
