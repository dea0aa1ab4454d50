package protocol_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

var update = flag.Bool("update", false, "write the golden files anew")

// payloads are all types that are in history or travel to or from a client. A golden file that changes is a change
// of the wire: old histories must still decode.
var payloads = map[string]any{
	"agent_input":          protocol.AgentInput{},
	"agent_result":         protocol.AgentResult{},
	"resolution":           protocol.Resolution{},
	"accepted":             protocol.Accepted{},
	"approvals":            protocol.Approvals{},
	"memo_question":        protocol.MemoQuestion{},
	"resolve_request":      protocol.ResolveRequest{},
	"resolve_response":     protocol.ResolveResponse{},
	"ref_request":          protocol.RefRequest{},
	"ref_response":         protocol.RefResponse{},
	"acquire_request":      protocol.AcquireRequest{},
	"collect_request":      protocol.CollectRequest{},
	"artifact":             protocol.Artifact{},
	"large_file":           protocol.LargeFile{},
	"dispose_request":      protocol.DisposeRequest{},
	"dispose_response":     protocol.DisposeResponse{},
	"generate_request":     protocol.GenerateRequest{},
	"generate_response":    protocol.GenerateResponse{},
	"speech":               protocol.Speech{},
	"decide_request":       protocol.DecideRequest{},
	"decide_response":      protocol.DecideResponse{},
	"decide_turn":          protocol.DecideTurnRequest{},
	"decide_turn_response": protocol.DecideTurnResponse{},
	"admit_request":        protocol.AdmitRequest{},
	"admit_response":       protocol.AdmitResponse{},
	"observe_request":      protocol.ObserveRequest{},
	"receive_request":      protocol.ReceiveRequest{},
	"receive_response":     protocol.ReceiveResponse{},
	"spent_response":       protocol.SpentResponse{},
	"carry":                protocol.Carry{},
	"trace":                protocol.Trace{},
	"agent_state":          protocol.AgentState{},
	"continue_response":    protocol.ContinueResponse{},
	"lineage":              protocol.Lineage{},
	"join_request":         protocol.JoinRequest{},
	"join_response":        protocol.JoinResponse{},
	"forward_request":      protocol.ForwardRequest{},
	"forward_response":     protocol.ForwardResponse{},
	"tool_call":            tool.Call{},
	"tool_result":          tool.Result{},
	"grant":                protocol.Grant{},
	"place":                protocol.Place{},
}

func TestGoldenPayloads(t *testing.T) {
	for name, zero := range payloads {
		t.Run(name, func(t *testing.T) {
			typ := reflect.TypeOf(zero)
			want := filled(t, typ)
			got, err := json.MarshalIndent(want.Interface(), "", "  ")
			require.NoError(t, err)
			got = append(got, '\n')
			path := filepath.Join("testdata", name+".json")
			if *update {
				require.NoError(t, os.WriteFile(path, got, 0o600))
			}
			golden, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(golden), string(got))

			back := reflect.New(typ)
			require.NoError(t, json.Unmarshal(golden, back.Interface()))
			again, err := json.MarshalIndent(back.Interface(), "", "  ")
			require.NoError(t, err)
			require.Equal(t, string(golden), string(again)+"\n", "nothing is lost on the way back")
		})
	}
}

func TestEveryGoldenFileHasAType(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.Len(t, files, len(payloads))
}

// A newer side may send members that an older one does not know; they must not stop it.
func TestUnknownMembersAreTolerated(t *testing.T) {
	for name, zero := range payloads {
		t.Run(name, func(t *testing.T) {
			golden, err := os.ReadFile(filepath.Join("testdata", name+".json"))
			require.NoError(t, err)
			newer := bytes.Replace(golden, []byte("{"), []byte(`{"aMemberOfTomorrow": {"x": [1]},`), 1)
			back := reflect.New(reflect.TypeOf(zero))
			require.NoError(t, json.Unmarshal(newer, back.Interface()))
			want, err := json.Marshal(filled(t, reflect.TypeOf(zero)).Interface())
			require.NoError(t, err)
			got, err := json.Marshal(back.Interface())
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		})
	}
}

// closed are the values of types that do not take every text.
var closed = map[reflect.Type]any{
	reflect.TypeFor[time.Time]():       time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC),
	reflect.TypeFor[json.RawMessage](): json.RawMessage(`{"n": 9007199254740993}`),
	reflect.TypeFor[approval.Choice](): approval.Allow,
	reflect.TypeFor[tool.Risk]():       tool.Execute,
	reflect.TypeFor[worktree.Kind]():   worktree.Tree,
	reflect.TypeFor[tool.Code]():       tool.OK,
	reflect.TypeFor[tool.RemoteKind](): tool.RemoteActivity,
}

// filled returns a value whose every field is set, at every depth, so that a new field changes a golden file.
func filled(t *testing.T, typ reflect.Type) reflect.Value {
	t.Helper()
	v := reflect.New(typ).Elem()
	fill(t, v, typ.Name(), 0)
	return v
}

func fill(t *testing.T, v reflect.Value, name string, depth int) {
	t.Helper()
	require.Less(t, depth, 20, "%s is recursive", name)
	if known, ok := closed[v.Type()]; ok {
		v.Set(reflect.ValueOf(known))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), name, depth+1)
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, name, depth+1)
		fill(t, value, name, depth+1)
		m.SetMapIndex(key, value)
		v.Set(m)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), name, depth+1)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(v.Type()) {
			if f.IsExported() && len(f.Index) == 1 && f.Tag.Get("json") != "-" {
				fill(t, v.FieldByIndex(f.Index), f.Name, depth+1)
			}
		}
	case reflect.String:
		v.SetString("the " + name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Uint8:
		if v.CanUint() {
			v.SetUint(1)
			return
		}
		v.SetInt(int64(len(name)))
	case reflect.Float64:
		v.SetFloat(0.125)
	default:
		require.Fail(t, "no filler", "%s %s", name, v.Type())
	}
}

// A tool cannot be made of what the engine itself runs: it would be a way past the gate.
func TestOwnNamesAreNoTools(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{}}`)
	for _, own := range []string{protocol.ActivityDecide, protocol.ActivityDecideTurn, protocol.ActivityDecideSlow, protocol.ActivityAdmit, protocol.ActivityResolveToolset,
		protocol.ActivityResolveRef, protocol.ActivityGenerate, protocol.ActivityAcquireWorktree, protocol.ActivityCollectWorktree,
		protocol.ActivityDisposeWorktree, protocol.ActivityObserve, protocol.ActivityReceiveResult, protocol.ToolPrefix + "x", protocol.WorkflowAgent} {
		_, err := tool.FromActivity("a", "Does.", schema, own, "theirs")
		require.True(t, fault.IsConfig(err), "%s: %v", own, err)
		_, err = tool.FromWorkflow("a", "Does.", schema, own, "theirs")
		require.True(t, fault.IsConfig(err), "%s: %v", own, err)
	}
}

// The names that are on the wire are pinned here too: changing one breaks running agents and everyone's scripts.
func TestNames(t *testing.T) {
	require.Equal(t, []string{
		"assent", "assent.Agent", "approval", "resolve", "approvals", "assent_approval", "assent_resolve", "assent_approvals", "assent_",
		"AssentDecide", "AssentDecideTurn", "AssentDecideSlow", "AssentAdmit", "ResolveToolset", "ResolveRef", "Generate", "AcquireWorktree", "CollectWorktree",
		"DisposeWorktree", "Observe", "ReceiveResult", "tool.", "assent.ConfigError", "assent.Denied", "assent.ModelError", "assent.EnvironmentLost",
		"assent.StoreMismatch", "assent.BlobMissing", "assent.BlobAltered", "assent-grant", "AssentStatus", "AssentAgent", "AssentPendingTool", "AssentRoot", "assentPending",
		"running", "waiting", "done", "assent", "ok", "error", "limit", "cancelled", "escalated", "patch",
	}, []string{
		protocol.DefaultTaskQueue, protocol.WorkflowAgent, protocol.SignalApproval, protocol.UpdateResolve, protocol.QueryApprovals,
		protocol.GuardSignalApproval, protocol.GuardUpdateResolve, protocol.GuardQueryApprovals, protocol.GuardPrefix,
		protocol.ActivityDecide, protocol.ActivityDecideTurn, protocol.ActivityDecideSlow, protocol.ActivityAdmit, protocol.ActivityResolveToolset,
		protocol.ActivityResolveRef, protocol.ActivityGenerate, protocol.ActivityAcquireWorktree, protocol.ActivityCollectWorktree,
		protocol.ActivityDisposeWorktree, protocol.ActivityObserve, protocol.ActivityReceiveResult, protocol.ToolPrefix, protocol.ErrorConfig, protocol.ErrorDenied,
		protocol.ErrorModel, protocol.ErrorGone, protocol.ErrorStore, protocol.ErrorBlobMissing, protocol.ErrorBlobAltered, protocol.HeaderGrant, protocol.AttrStatus, protocol.AttrAgent,
		protocol.AttrPendingTool, protocol.AttrRoot, protocol.MemoPending, string(protocol.StatusRunning), string(protocol.StatusWaiting),
		string(protocol.StatusDone), protocol.ChangeGate, string(protocol.OK), string(protocol.Failed), string(protocol.LimitHit),
		string(protocol.Cancelled), string(protocol.Escalated), protocol.ArtifactPatch,
	})
	require.Equal(t, []tool.Code{"OK", "UNKNOWN_TOOL", "INVALID_ARGUMENTS", "DENIED", "BLOCKED", "TOOL_ERROR", "TOOL_TIMEOUT", "ABORTED",
		"NON_SERIALIZABLE", "CONTRACT_DRIFT", "SKIPPED", "EFFECT_UNKNOWN", "ENVIRONMENT_LOST"},
		[]tool.Code{tool.OK, tool.UnknownTool, tool.InvalidArguments, tool.Denied, tool.Blocked, tool.ToolError, tool.ToolTimeout,
			tool.Aborted, tool.NonSerializable, tool.ContractDrift, tool.Skipped, tool.EffectUnknown, tool.EnvironmentLost})
}
