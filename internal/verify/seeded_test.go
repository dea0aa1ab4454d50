package verify_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/protocol"
)

// run is the call of the recordings in which somebody is asked.
var run = schedules("tool.run")

// callTool is a call of a source's tool under the shared activity type.
var callTool = schedules(protocol.ActivityCallTool)

const (
	runKey = "run-06dc9abe"
	base   = "11111111-1111-4111-8111-111111111111"
	other  = "sha256-of-something-else"
)

func set(name string, value any) func(members) { return func(m members) { m[name] = value } }

// seeded are violations, each put into a recorded history, and the kind under which it is found.
var seeded = map[string]struct {
	history string
	tamper  func(*tape)
	want    verify.Kind
}{
	"another source in the call":            {"source-shared", func(p *tape) { p.argument(p.at(0, callTool), set("source", "other")) }, verify.OtherContract},
	"another source in the grant":           {"source-by-name", func(p *tape) { p.grant(p.at(0, run), set("source", "other")) }, verify.OtherContract},
	"another tool in a call of a source":    {"source-shared", func(p *tape) { p.argument(p.at(0, callTool), set("name", "note")) }, verify.OtherCall},
	"a call of a source that names no tool": {"source-shared", func(p *tape) { p.argument(p.at(0, callTool), set("name", "")) }, verify.OtherCall},
	"a call of a source without a grant":    {"source-shared", func(p *tape) { header(p.events[p.at(0, callTool)]).Fields = nil }, verify.NoGrant},
	"a call of a source without a decision": {"source-shared", func(p *tape) {
		p.drop(p.at(0, decideTurn))
	}, verify.NoDecision},
	"a tool of a source as another activity": {"source-by-name", func(p *tape) {
		i := p.at(0, run)
		p.argument(i, set("name", "run"))
		p.events[i].GetActivityTaskScheduledEventAttributes().ActivityType.Name = protocol.ActivityCallTool
	}, verify.OtherContract},
	"ran without a decision": {"allowed", func(p *tape) {
		p.result(p.at(0, decideTurn), func(m members) { m["decisions"] = m["decisions"].([]any)[:1] })
	}, verify.NoDecision},
	"decided after it was scheduled": {"allowed", func(p *tape) {
		i := p.at(0, decideTurn)
		d := p.copyOf(i)
		p.drop(i)
		p.insert(len(p.events), d)
	}, verify.NoDecision},
	"ran although it was denied": {"allowed", func(p *tape) {
		p.decided(0, func(m members) { m["decision"].(members)["verdict"] = "deny" })
	}, verify.Denied},
	"two decisions on one call of a turn": {"allowed", func(p *tape) {
		p.result(p.at(0, decideTurn), func(m members) {
			list := m["decisions"].([]any)
			m["decisions"] = append([]any{members{"callId": "t1.1", "tool": "look", "decision": members{"verdict": "deny", "decidedBy": "deny-rule"}}}, list...)
		})
	}, verify.Unreadable},
	"decisions of a turn that changed places": {"allowed", func(p *tape) {
		p.result(p.at(0, decideTurn), func(m members) { slices.Reverse(m["decisions"].([]any)) })
	}, verify.Unreadable},
	"a decision of another turn":         {"allowed", func(p *tape) { p.decided(1, set("callId", "t9.2")) }, verify.Unreadable},
	"a turn without decisions":           {"allowed", func(p *tape) { p.result(p.at(0, decideTurn), set("decisions", []any{})) }, verify.Unreadable},
	"ran although a question was open":   {"asked-and-allowed", func(p *tape) { p.drop(p.at(0, admit)) }, verify.NoAnswer},
	"ran although a person denied":       {"asked-and-allowed", func(p *tape) { p.result(p.at(0, admit), set("how", "denied")) }, verify.Denied},
	"ran although it was expired":        {"asked-and-allowed", func(p *tape) { p.result(p.at(0, admit), set("how", "expired")) }, verify.Denied},
	"ran on one vote of several":         {"asked-and-allowed", func(p *tape) { p.result(p.at(0, admit), set("how", "counted")) }, verify.NoAnswer},
	"ran on a vote that does not count":  {"asked-and-allowed", func(p *tape) { p.result(p.at(0, admit), set("how", "uncounted")) }, verify.NoAnswer},
	"ran on an unknown way of admission": {"asked-and-allowed", func(p *tape) { p.result(p.at(0, admit), set("how", "sure")) }, verify.Denied},
	"the first close wins": {"asked-and-allowed", func(p *tape) {
		i := p.at(0, admit)
		p.insert(i, p.copyOf(i))
		p.result(i, set("how", "denied"))
	}, verify.Denied},
	"an answer to another question": {"asked-and-allowed", func(p *tape) { p.result(p.at(0, admit), set("key", "run-11111111")) }, verify.NoAnswer},
	"an answer that nobody gave":    {"asked-and-allowed", func(p *tape) { p.drop(p.at(0, signaled)) }, verify.NoAnswer},
	"a deny that was admitted as an allow": {"asked-and-allowed", func(p *tape) {
		p.payload(p.events[p.at(0, signaled)].GetWorkflowExecutionSignaledEventAttributes().Input.Payloads[0], set("decision", "deny"))
	}, verify.NoAnswer},
	"an answer that was admitted under another name": {"asked-and-allowed", func(p *tape) { p.result(p.at(0, admit), set("by", "bob")) }, verify.NoAnswer},
	"one of two votes": {"quorum", func(p *tape) { p.drop(p.at(0, counted)) }, verify.NoAnswer},
	"two votes by one principal": {"quorum", func(p *tape) {
		i, last := p.at(0, counted), p.at(0, allowed)
		var by any
		p.result(i, func(m members) { by = m["by"] })
		p.result(last, set("by", by))
		p.events[p.at(2, signaled)] = proto.Clone(p.events[p.at(1, signaled)]).(*historypb.HistoryEvent)
	}, verify.NoAnswer},
	"a vote by who asked for the run": {"quorum", func(p *tape) {
		var by any
		p.result(p.at(0, allowed), func(m members) { by = m["by"] })
		p.payload(p.events[0].GetWorkflowExecutionStartedEventAttributes().Input.Payloads[0], set("requestedBy", by))
	}, verify.NoAnswer},
	"a vote that nobody gave": {"quorum", func(p *tape) { p.drop(p.at(1, signaled)) }, verify.NoAnswer},
	"an approver that did not answer": {"approver", func(p *tape) {
		i := p.endOf(p.at(0, schedules(protocol.ActivityAskApprover)))
		p.events[i].GetActivityTaskCompletedEventAttributes().Result = payloads(`{"unavailable":true}`)
	}, verify.NoAnswer},
	"an answer of before the question": {"asked-and-allowed", func(p *tape) {
		p.drop(p.at(0, signaled))
		p.insert(p.at(0, decide), signal(`{"key":"`+runKey+`","decision":"allow"}`))
	}, verify.NoAnswer},
	"an answer by a signal of another name": {"asked-and-allowed", func(p *tape) {
		p.events[p.at(0, signaled)].GetWorkflowExecutionSignaledEventAttributes().SignalName = protocol.GuardSignalApproval
	}, verify.NoAnswer},
	"an answer that was admitted afterwards": {"asked-and-allowed", func(p *tape) {
		i := p.at(0, admit)
		a := p.copyOf(i)
		p.drop(i)
		p.insert(len(p.events), a)
	}, verify.NoAnswer},

	"one byte of the arguments":   {"asked-and-allowed", func(p *tape) { p.argument(p.at(0, run), set("input", members{"text": "b"})) }, verify.OtherInput},
	"a grant for other arguments": {"asked-and-allowed", func(p *tape) { p.grant(p.at(0, run), set("input", other)) }, verify.OtherInput},
	"arguments and digest of the grant": {"allowed", func(p *tape) {
		i := p.at(0, schedules("tool.note"))
		p.argument(i, set("input", members{"text": "c"}))
		p.grant(i, set("input", canonjson.SHA256([]byte(`{"text":"c"}`))))
	}, verify.OtherInput},
	"arguments by a reference that nobody decided on": {"allowed", func(p *tape) {
		p.argument(p.at(0, schedules("tool.note")), func(m members) {
			delete(m, "input")
			m["inputRef"] = members{"sha256": strings.Repeat("0", 64), "size": 1}
		})
	}, verify.OtherInput},
	"an edit that nobody made": {"edited", func(p *tape) {
		p.payload(p.events[p.at(0, signaled)].GetWorkflowExecutionSignaledEventAttributes().Input.Payloads[0], set("input", members{"text": "other"}))
	}, verify.NoAnswer},
	"an edit that was not admitted":        {"edited", func(p *tape) { p.result(p.at(0, admit), func(m members) { delete(m, "input") }) }, verify.OtherInput},
	"what was asked ran, and not the edit": {"edited", func(p *tape) { p.argument(p.at(0, run), set("input", members{"text": "a"})) }, verify.OtherInput},
	"a decision on other arguments than asked for": {"allowed", func(p *tape) {
		p.payload(p.events[p.at(0, func(e *historypb.HistoryEvent) bool {
			return strings.Contains(string(firstOf(e)), `"calls"`)
		})].GetActivityTaskCompletedEventAttributes().Result.Payloads[0], func(m members) {
			m["calls"].([]any)[0].(members)["input"] = members{"text": "never"}
		})
	}, verify.OtherInput},

	"scheduled twice":                  {"asked-and-allowed", func(p *tape) { i := p.at(0, run); p.again(i, len(p.events)-2, "t1.1") }, verify.UsedTwice},
	"a later try of a call that ran":   {"asked-and-allowed", func(p *tape) { i := p.at(0, run); p.again(i, len(p.events)-2, "t1.1~2") }, verify.UsedTwice},
	"a later try while the first runs": {"asked-and-allowed", func(p *tape) { i := p.at(0, run); p.again(i, i+1, "t1.1~2") }, verify.UsedTwice},
	"a later try after a lost one that had begun": {"asked-and-allowed", func(p *tape) {
		i := p.at(0, run)
		p.ends(i, true, late(p.events[i].EventId, enumspb.TIMEOUT_TYPE_START_TO_CLOSE))
		p.again(i, len(p.events)-2, "t1.1~2")
	}, verify.UsedTwice},

	"decided on once more, and used again": {"allowed", func(p *tape) {
		i, d := p.at(0, schedules("tool.note")), p.at(0, decideTurn)
		again := p.copyOf(d)
		end := p.endOf(i)
		p.insert(end+1, again)
		p.again(i, len(p.events)-2, "t1.2~2")
	}, verify.UsedTwice},
	"guarded local activity: tries that did not fail": {"guarded-local", func(p *tape) {
		i := p.at(0, local("Deploy"))
		p.insert(i, p.copyOf(i))
		p.events[i].GetMarkerRecordedEventAttributes().Details["data"] = payloads(`{"ActivityType":"Deploy","Backoff":1000000000}`)
	}, verify.UsedTwice},
	"a deny that came first": {"asked-and-allowed", func(p *tape) {
		p.insert(p.at(0, signaled), signal(`{"key":"`+runKey+`","decision":"deny"}`))
	}, verify.Denied},

	"revoked, and scheduled": {"asked-and-allowed", func(p *tape) {
		p.insert(p.at(0, run), signal(`{"key":"`+runKey+`","decision":"revoke"}`))
	}, verify.Revoked},
	"revoked by an update, and scheduled": {"asked-and-allowed", func(p *tape) {
		p.insert(p.at(0, run), updated(`{"key":"`+runKey+`","decision":"revoke"}`))
	}, verify.Revoked},
	"revoked while the allow was admitted": {"asked-and-allowed", func(p *tape) {
		p.insert(p.at(0, admit), signal(`{"key":"`+runKey+`","decision":"revoke"}`))
	}, verify.Revoked},
	"revoked before the allow": {"asked-and-allowed", func(p *tape) {
		p.insert(p.at(0, signaled), signal(`"{\"key\":\"`+runKey+`\",\"decision\":\"revoke\"}"`))
	}, verify.Revoked},

	"scheduled after its time": {"asked-and-allowed", func(p *tape) {
		i := p.at(0, run)
		until := p.events[i].EventTime.AsTime().Unix() - 1
		p.result(p.at(0, admit), set("expires", until))
		p.grant(i, set("exp", until))
	}, verify.Expired},
	"began after its time": {"asked-and-allowed", func(p *tape) {
		i := p.at(0, run)
		until := p.events[i].EventTime.AsTime()
		p.result(p.at(0, admit), set("expires", until.Unix()))
		p.grant(i, set("exp", until.Unix()))
		p.events[p.at(0, starts(p.events[i].GetEventId()))].EventTime = timestamppb.New(until.Add(2 * time.Second))
	}, verify.Expired},
	"a grant without the bound of the answer": {"asked-and-allowed", func(p *tape) {
		p.result(p.at(0, admit), set("expires", p.events[0].EventTime.AsTime().Add(time.Hour).Unix()))
	}, verify.Expired},
	"answered after the deadline": {"asked-and-allowed", func(p *tape) {
		p.insert(p.at(0, signaled), rings(p.t, runKey+" · deadline")...)
	}, verify.Expired},

	"another contract in the grant": {"asked-and-allowed", func(p *tape) { p.grant(p.at(0, run), set("contract", other)) }, verify.OtherContract},
	"another contract in the call":  {"asked-and-allowed", func(p *tape) { p.argument(p.at(0, run), set("contractHash", other)) }, verify.OtherContract},
	"other terms in the grant":      {"asked-and-allowed", func(p *tape) { p.grant(p.at(0, run), set("terms", other)) }, verify.OtherCall},
	"no toolset was frozen":         {"allowed", func(p *tape) { p.drop(p.endOf(p.at(0, schedules(protocol.ActivityResolveToolset)))) }, verify.OtherContract},
	"another policy":                {"asked-and-allowed", func(p *tape) { p.grant(p.at(0, run), set("policy", other)) }, verify.OtherPolicy},
	"the grant of another call":     {"allowed", func(p *tape) { p.grant(p.at(0, schedules("tool.note")), set("call", "t1.1")) }, verify.OtherCall},
	"the grant of no call": {"allowed", func(p *tape) {
		p.grant(p.at(0, schedules("tool.note")), func(m members) { m["call"], m["mac"] = "", "" })
	}, verify.OtherCall},
	"the approval of another call": {"asked-and-allowed", func(p *tape) { p.argument(p.at(0, run), set("approved", members{"key": "run-11111111"})) }, verify.OtherCall},
	"another tool than was decided on": {"asked-and-allowed", func(p *tape) {
		p.events[p.at(0, run)].GetActivityTaskScheduledEventAttributes().ActivityType.Name = "tool.note"
	}, verify.OtherCall},
	"another tool in the call": {"asked-and-allowed", func(p *tape) { p.argument(p.at(0, run), set("name", "note")) }, verify.OtherCall},
	"no grant":                 {"allowed", func(p *tape) { header(p.events[p.at(0, schedules("tool.look"))]).Fields = nil }, verify.NoGrant},

	"a grant of another run":    {"asked-and-allowed", func(p *tape) { p.grant(p.at(0, run), set("run", base)) }, verify.OtherRun},
	"a decision of another run": {"allowed", func(p *tape) { p.decided(0, set("runId", base)) }, verify.OtherRun},
	"an admission of another run": {"asked-and-allowed", func(p *tape) {
		p.result(p.at(0, admit), set("runId", base))
		p.grant(p.at(0, run), set("run", base))
	}, verify.VoidAnswer},
	"an answer to a question of before the reset": {"reset", func(p *tape) {
		reset := p.at(0, is(enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED))
		d := p.copyOf(p.at(0, decide))
		p.drop(p.at(0, decide))
		p.insert(reset, d)
		p.result(reset, set("runId", p.events[0].GetWorkflowExecutionStartedEventAttributes().OriginalExecutionRunId))
	}, verify.VoidAnswer},
	"a void answer alone":     {"reset", func(p *tape) { p.result(p.at(0, admit), set("how", "void")) }, verify.VoidAnswer},
	"ran again after a reset": {"allowed", func(p *tape) { p.insert(p.at(0, schedules("tool.note"))+1, resetTo(base)) }, verify.OtherRun},

	"an event is missing":          {"allowed", func(p *tape) { p.whole(); p.drop(7) }, verify.Incomplete},
	"the beginning is missing":     {"allowed", func(p *tape) { p.drop(0) }, verify.Incomplete},
	"an end without its beginning": {"allowed", func(p *tape) { p.drop(p.at(0, schedules("tool.look"))) }, verify.Incomplete},
	"a decision that cannot be read": {"allowed", func(p *tape) {
		p.events[p.at(0, decideTurn)].GetMarkerRecordedEventAttributes().Details["result"] = payloads(`{"decision":{"verdict":"maybe"}}`)
	}, verify.Unreadable},
	"a local activity that cannot be read": {"allowed", func(p *tape) {
		p.events[p.at(0, decideTurn)].GetMarkerRecordedEventAttributes().Details["data"].Payloads[0].Metadata["encoding"] = []byte("binary/encrypted")
	}, verify.Unreadable},
	"an event of no known type": {"allowed", func(p *tape) {
		p.events[len(p.events)-2].EventType = enumspb.EVENT_TYPE_UNSPECIFIED
	}, verify.Unreadable},
	"a grant that cannot be read": {"allowed", func(p *tape) {
		header(p.events[p.at(0, schedules("tool.look"))]).Fields[protocol.HeaderGrant].Data = []byte("[1]")
	}, verify.Unreadable},
	"an argument that is no call": {"allowed", func(p *tape) {
		p.events[p.at(0, schedules("tool.look"))].GetActivityTaskScheduledEventAttributes().Input = payloads(`7`)
	}, verify.Unreadable},

	"foreign activity: other arguments": {"foreign-activity", func(p *tape) { p.argument(p.at(0, schedules("Refund")), set("amount", 3)) }, verify.OtherInput},
	"foreign activity: no grant":        {"foreign-activity", func(p *tape) { header(p.events[p.at(0, schedules("Fail"))]).Fields = nil }, verify.NoGrant},
	"foreign activity: another type": {"foreign-activity", func(p *tape) {
		p.events[p.at(0, schedules("Fail"))].GetActivityTaskScheduledEventAttributes().ActivityType.Name = "Refund"
	}, verify.OtherCall},
	"foreign workflow: other arguments": {"foreign-workflow", func(p *tape) { p.argument(p.at(0, child), set("orderId", "z")) }, verify.OtherInput},
	"foreign workflow: another id": {"foreign-workflow", func(p *tape) {
		p.events[p.at(0, child)].GetStartChildWorkflowExecutionInitiatedEventAttributes().WorkflowId = "mine"
	}, verify.OtherCall},
	"foreign workflow: no grant": {"foreign-workflow", func(p *tape) { header(p.events[p.at(0, child)]).Fields = nil }, verify.NoGrant},

	"guarded activity: other arguments": {"guarded-continued", func(p *tape) {
		p.events[p.at(0, schedules("Deploy"))].GetActivityTaskScheduledEventAttributes().Input = payloads(`"web"`)
	}, verify.OtherInput},
	"guarded activity: no grant": {"guarded-continued", func(p *tape) { header(p.events[p.at(0, schedules("Deploy"))]).Fields = nil }, verify.NoGrant},
	"guarded activity: no grant and no version": {"guarded-continued", func(p *tape) {
		header(p.events[p.at(0, schedules("Deploy"))]).Fields = nil
		p.drop(p.at(0, func(e *historypb.HistoryEvent) bool {
			d := e.GetMarkerRecordedEventAttributes().GetDetails()["change-id"].GetPayloads()
			return len(d) > 0 && string(d[0].Data) == `"`+protocol.ChangeGuard+`Deploy"`
		}))
	}, verify.NoGrant},
	"guarded activity: no decision": {"guarded-continued", func(p *tape) { p.drop(p.at(0, decide)) }, verify.NoDecision},
	"guarded activity: another than was decided on": {"guarded-continued", func(p *tape) {
		p.events[p.at(0, schedules("Deploy"))].GetActivityTaskScheduledEventAttributes().ActivityType.Name = "Destroy"
	}, verify.OtherCall},
	"guarded activity: twice": {"guarded-continued", func(p *tape) { p.again(p.at(0, schedules("Deploy")), len(p.events)-1, "assent-2~2") }, verify.UsedTwice},
	"guarded activity: the key of the run before": {"guarded-continued", func(p *tape) {
		p.result(p.at(0, admit), set("key", "Deploy-c0d604e3"))
	}, verify.NoAnswer},
	"guarded local activity: no decision": {"guarded-local", func(p *tape) { p.drop(p.at(0, decide)) }, verify.NoDecision},
	"guarded local activity: denied":      {"guarded-local", func(p *tape) { p.result(p.at(0, admit), set("how", "denied")) }, verify.Denied},
	"guarded local activity: twice":       {"guarded-local", func(p *tape) { i := p.at(0, local("Deploy")); p.insert(i+1, p.copyOf(i)) }, verify.UsedTwice},
	"guarded workflow: never decided":     {"guarded-entry", func(p *tape) { p.insert(5, version("assent/Twice", "1")) }, verify.NoDecision},
	"guarded workflow: denied": {"guarded-entry", func(p *tape) {
		p.insert(5, version("assent/Twice", "1"), marker(protocol.ActivityDecide,
			`{"callId":"assent-1","tool":"Twice","runId":"b8c52d73-7402-4efb-a2c0-a9d4ce42690d","decision":{"verdict":"deny","decidedBy":"deny-rule","input":null,"policyDigest":"p"}}`))
	}, verify.Denied},
}

func child(e *historypb.HistoryEvent) bool {
	return e.GetEventType() == enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED && header(e).GetFields()[protocol.HeaderGrant] != nil
}

// starts is the start of a scheduled activity.
func starts(scheduled int64) func(*historypb.HistoryEvent) bool {
	return func(e *historypb.HistoryEvent) bool {
		return e.GetActivityTaskStartedEventAttributes().GetScheduledEventId() == scheduled
	}
}

// counted and allowed are admissions of votes that are not enough, and of the last one.
func counted(e *historypb.HistoryEvent) bool { return admitsAs(e, "counted") }
func allowed(e *historypb.HistoryEvent) bool { return admitsAs(e, "allowed") }

func admitsAs(e *historypb.HistoryEvent, how string) bool {
	return admit(e) && strings.Contains(string(e.GetMarkerRecordedEventAttributes().GetDetails()["result"].GetPayloads()[0].GetData()), `"how":"`+how+`"`)
}

func firstOf(e *historypb.HistoryEvent) []byte {
	if p := e.GetActivityTaskCompletedEventAttributes().GetResult().GetPayloads(); len(p) > 0 {
		return p[0].Data
	}
	return nil
}

// Each violation is found, under its own kind and at an event that is there.
func TestSeededViolationsAreFound(t *testing.T) {
	for name, tc := range seeded {
		t.Run(name, func(t *testing.T) {
			p := record(t, tc.history)
			require.True(t, p.verify().OK(), "the recording itself is clean")
			p = record(t, tc.history)
			tc.tamper(p)
			var r verify.Report
			if tc.want == verify.Incomplete {
				r = verify.History(p.events, verify.Options{})
			} else {
				r = p.verify()
			}
			require.False(t, r.OK())
			var kinds []verify.Kind
			for _, f := range r.Findings {
				kinds = append(kinds, f.Kind)
				require.NotEmpty(t, f.Why)
			}
			require.Contains(t, kinds, tc.want, "%+v", r.Findings)
			t.Logf("%+v", r.Findings)
		})
	}
}

// What a call tells its worker beside its arguments is under the signature of its grant.
func TestOtherTermsOfACallAreFound(t *testing.T) {
	for name, tamper := range map[string]func(*tape){
		"directory": func(p *tape) { p.argument(p.at(0, run), set("dir", "/")) },
		"rules":     func(p *tape) { p.argument(p.at(0, run), set("tighten", members{})) },
	} {
		p := record(t, "asked-and-allowed")
		o := verify.Options{Keys: keys(t), Namespace: "default"}
		require.Empty(t, verify.History(p.events, o).Findings, name)
		tamper(p)
		found := verify.History(p.events, o).Findings
		require.Len(t, found, 1, name)
		require.Equal(t, verify.BadSignature, found[0].Kind, name)
	}
}

// What looks like a violation and is none.
func TestWhatIsAllowedIsNotFound(t *testing.T) {
	const drift = `{"code":"CONTRACT_DRIFT","failure":{"message":"m"}}`
	tries := func(started bool, end func(scheduled int64) *historypb.HistoryEvent) func(*tape) {
		return func(p *tape) {
			i := p.at(0, run)
			p.ends(i, started, end(p.events[i].EventId))
			p.again(i, len(p.events)-2, "t1.1~2")
		}
	}
	for name, tc := range map[string]struct {
		history string
		tamper  func(*tape)
		notes   int
	}{
		"a later try of a call that drifted": {"asked-and-allowed", func(p *tape) {
			i := p.at(0, run)
			p.events[p.endOf(i)].GetActivityTaskCompletedEventAttributes().Result = payloads(drift)
			p.again(i, len(p.events)-2, "t1.1~2")
		}, 1},
		"a later try of a call that nobody took": {"asked-and-allowed", tries(false, func(id int64) *historypb.HistoryEvent {
			return late(id, enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START)
		}), 1},
		"a later try of a call that was lost on its way": {"asked-and-allowed", tries(true, func(id int64) *historypb.HistoryEvent {
			return late(id, enumspb.TIMEOUT_TYPE_HEARTBEAT)
		}), 1},
		"a later try of a call that its worker did not know": {"asked-and-allowed", tries(true, func(id int64) *historypb.HistoryEvent {
			return failing(id, application("ActivityNotRegisteredError"))
		}), 1},
		"a revocation after it was scheduled": {"asked-and-allowed", func(p *tape) {
			p.insert(p.at(0, run)+1, signal(`{"key":"`+runKey+`","decision":"revoke"}`))
		}, 1},
		"a revocation of another key": {"asked-and-allowed", func(p *tape) {
			p.insert(p.at(0, run), signal(`{"key":"run-11111111","decision":"revoke"}`))
		}, 1},
		"a revocation of before the question": {"asked-and-allowed", func(p *tape) {
			p.insert(p.at(0, decide), signal(`{"key":"`+runKey+`","decision":"revoke"}`))
		}, 1},
		"a deny that came second": {"asked-and-allowed", func(p *tape) {
			p.insert(p.at(0, admit), signal(`{"key":"`+runKey+`","decision":"deny"}`))
		}, 1},
		"an answer by update": {"asked-and-allowed", func(p *tape) {
			i := p.at(0, signaled)
			p.drop(i)
			p.insert(i, updated(`{"key":"`+runKey+`","decision":"allow","by":" alice "}`))
		}, 1},
		"an answer by a bare word": {"asked-and-allowed", func(p *tape) {
			i := p.at(0, signaled)
			p.drop(i)
			p.insert(i, signal(`"allow"`))
			p.result(p.at(0, admit), func(m members) { delete(m, "by") })
		}, 1},
		"two votes": {"asked-and-allowed", func(p *tape) {
			i := p.at(0, admit)
			p.insert(i, p.copyOf(i))
			p.result(i, set("how", "counted"))
		}, 1},
		"a call in time": {"asked-and-allowed", func(p *tape) {
			until := p.events[len(p.events)-1].EventTime.AsTime().Unix()
			p.result(p.at(0, admit), set("expires", until))
			p.grant(p.at(0, run), set("exp", until))
		}, 1},
		"an answer in time, admitted after the deadline": {"asked-and-allowed", func(p *tape) {
			p.insert(p.at(0, admit), rings(p.t, runKey+" · deadline")...)
		}, 1},
		"a call without a grant that its worker refused": {"allowed", func(p *tape) {
			i := p.at(0, schedules("tool.note"))
			header(p.events[i]).Fields = nil
			p.ends(i, true, failing(p.events[i].EventId, application(protocol.ErrorDenied)))
		}, 2},
		"a call that its worker refused after its time": {"asked-and-allowed", func(p *tape) {
			i := p.at(0, run)
			until := p.events[i].EventTime.AsTime().Unix() - 1
			p.result(p.at(0, admit), set("expires", until))
			p.grant(i, set("exp", until))
			p.ends(i, true, failing(p.events[i].EventId, application(protocol.ErrorDenied)))
		}, 1},
		"in flight at a reset, and refused": {"allowed", func(p *tape) {
			i := p.at(0, schedules("tool.note"))
			p.ends(i, true, failing(p.events[i].EventId, application(protocol.ErrorDenied)))
			p.insert(i+1, resetTo(base))
		}, 1},
		"in flight at a reset, and only reads": {"allowed", func(p *tape) {
			p.insert(p.at(0, schedules("tool.look"))+1, resetTo(base))
			// The next call was decided before as well; its worker would refuse it.
			n := p.at(0, schedules("tool.note"))
			p.ends(n, true, failing(p.events[n].EventId, application(protocol.ErrorDenied)))
		}, 1},
		"a local activity that is tried again": {"guarded-local", func(p *tape) {
			i := p.at(0, local("Deploy"))
			p.insert(i, p.copyOf(i))
			m := p.events[i].GetMarkerRecordedEventAttributes()
			m.Details["data"], m.Failure = payloads(`{"ActivityType":"Deploy","Backoff":1000000000}`), application("Down")
		}, 1},
		"an activity id of the team's own, twice": {"guarded-continued", func(p *tape) {
			// Another call, with a decision and an answer of its own.
			i := p.at(0, schedules("Deploy"))
			again := []*historypb.HistoryEvent{p.copyOf(p.at(0, decide)), p.copyOf(p.at(0, signaled)), p.copyOf(p.at(0, admit))}
			end := p.endOf(i) + 1
			p.insert(end, again...)
			p.payload(p.events[end+1].GetWorkflowExecutionSignaledEventAttributes().Input.Payloads[0], set("key", "Deploy-c0d604e3.3"))
			p.result(end+2, set("key", "Deploy-c0d604e3.3"))
			p.again(i, end+3, "deploy")
			for _, e := range p.events {
				if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == "Deploy" {
					a.ActivityId = "deploy"
				}
			}
			for n := range p.events {
				if decide(p.events[n]) {
					p.result(n, set("callId", "deploy"))
				}
				if schedules("Deploy")(p.events[n]) {
					p.grant(n, set("call", "deploy"))
				}
			}
		}, 1},
		"an allowed run of a guarded workflow": {"guarded-entry", func(p *tape) {
			p.insert(5, version("assent/Twice", "1"), marker(protocol.ActivityDecide,
				`{"callId":"assent-1","tool":"Twice","runId":"`+started(p).OriginalExecutionRunId+`","decision":{"verdict":"allow","decidedBy":"default","input":null,"policyDigest":"p"},`+
					`"inputDigest":"14d97fb6b8e9d0a3ba46b2b5a9d0ad1e3f0f3f8c2b0ef8d7a0c3b3e0a8bd1a11"}`))
		}, 1},
		"a refused run of a guarded workflow": {"guarded-entry", func(p *tape) {
			p.insert(5, version("assent/Twice", "1"))
			p.events[len(p.events)-1] = &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, EventTime: p.events[0].EventTime}
		}, 0},
		"an activity that is no tool": {"allowed", func(p *tape) {
			i := p.at(0, schedules(protocol.ActivityResolveToolset))
			e := p.copyOf(i)
			e.EventId = fresh
			e.GetActivityTaskScheduledEventAttributes().ActivityType.Name = "Audit"
			p.insert(i, e)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := record(t, tc.history)
			tc.tamper(p)
			r := p.verify()
			require.Empty(t, r.Findings)
			require.Len(t, r.Unchecked, tc.notes, "%q", r.Unchecked)
		})
	}
}
