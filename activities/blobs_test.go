package activities_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// ofResult is the error that a tool's result tells of.
func ofResult(r tool.Result) error {
	if r.Failure == nil {
		return nil
	}
	return errors.New(string(r.Code) + ": " + r.Failure.Message)
}

// readers are the activities that read from the blob store, each with a request that has ref where it reads.
func readers(b *bench) map[string]func(store string, ref *blob.Ref) error {
	generate := func(req protocol.GenerateRequest, store string) error {
		req.Store, req.Models = store, []string{"m:x"}
		_, err := b.generate(req)
		return err
	}
	decide := func(store string, ref *blob.Ref) protocol.DecideRequest {
		req := b.request("run", "")
		req.Input, req.InputRef, req.Store = nil, ref, store
		return req
	}
	admit := func(store string, ref *blob.Ref) protocol.AdmitRequest {
		req := decide(store, ref)
		return protocol.AdmitRequest{Decide: req, Final: ref, Resolution: approval.Resolution{Key: "k", Decision: approval.Allow},
			Question: approval.Approval{Key: "k", Tool: "run", Seal: approval.Seal{RunID: runID}}}
	}
	return map[string]func(store string, ref *blob.Ref) error{
		protocol.ActivityGenerate + " the transcript": func(store string, ref *blob.Ref) error {
			return generate(protocol.GenerateRequest{Transcript: ref}, store)
		},
		protocol.ActivityGenerate + " the prompt": func(store string, ref *blob.Ref) error {
			return generate(protocol.GenerateRequest{PromptRef: ref}, store)
		},
		protocol.ActivityGenerate + " what is frozen": func(store string, ref *blob.Ref) error {
			return generate(protocol.GenerateRequest{Prompt: "go", Frozen: ref}, store)
		},
		protocol.ActivityDecide: func(store string, ref *blob.Ref) error {
			return b.call(protocol.ActivityDecide, activities.AssentDecide, decide(store, ref), nil)
		},
		protocol.ActivityDecideSlow: func(store string, ref *blob.Ref) error {
			return b.call(protocol.ActivityDecideSlow, activities.AssentDecideSlow, decide(store, ref), nil)
		},
		protocol.ActivityAdmit: func(store string, ref *blob.Ref) error {
			return b.call(protocol.ActivityAdmit, activities.AssentAdmit, admit(store, ref), nil)
		},
		protocol.ActivityAdmitSlow: func(store string, ref *blob.Ref) error {
			return b.call(protocol.ActivityAdmitSlow, activities.AssentAdmitSlow, admit(store, ref), nil)
		},
		protocol.ActivityAskApprover: func(store string, ref *blob.Ref) error {
			return b.call(protocol.ActivityAskApprover, activities.AssentAskApprover,
				protocol.ApproverRequest{Call: tool.Call{Name: "run", InputRef: ref, Store: store}}, nil)
		},
	}
}

// An agent that began with one store is not carried on with another: every activity that reads or writes blobs refuses,
// and says which store is which. The first one, ResolveToolset, says with which the agent begins.
func TestEveryActivityKnowsTheStore(t *testing.T) {
	b := newBench(t, activities.Config{Models: map[string]model.Model{"m": text("hello")}, Worktrees: &trees{}, HostQueue: "q@h"})
	ref, err := b.store.Put(t.Context(), raw(pathIn{"a"}))
	require.NoError(t, err)
	all := readers(b)
	all[protocol.ActivityReceiveResult] = func(store string, _ *blob.Ref) error {
		req := protocol.ReceiveRequest{Call: tool.Call{ID: "t1.1", Name: "run", Store: store}, Tool: b.facts("run"), RunID: runID,
			Result: tool.Fail(tool.ToolError, "m")}
		_, err := b.receive(req, nil)
		return err
	}
	all[protocol.ActivityCollectWorktree] = func(store string, _ *blob.Ref) error {
		return b.call("collect", b.engine.CollectWorktree, protocol.CollectRequest{Lease: worktree.Lease{Run: runID}, Store: store}, nil)
	}
	// These say it in their result, or go on without the arguments.
	told := map[string]bool{protocol.ToolPrefix: true, protocol.ActivityDecideTurn: true, protocol.ActivityObserve: true, protocol.ActivityResolveToolset: true}
	// These have no blobs.
	none := map[string]bool{protocol.ActivityJoinAgent: true, protocol.ActivityForwardAnswer: true, protocol.ActivityResolveRef: true, protocol.ActivityAcquireWorktree: true, protocol.ActivityDisposeWorktree: true,
		protocol.ActivityAttributes: true, protocol.ActivityContinue: true, protocol.ActivitySpent: true}
	for name, run := range all {
		t.Run(name, func(t *testing.T) {
			err := run("elsewhere", &ref)
			requireType(t, err, protocol.ErrorStore, false)
			require.ErrorContains(t, err, `"elsewhere"`)
			require.ErrorContains(t, err, `"memory"`)
		})
	}
	tried := map[string]bool{}
	for name := range all {
		name, _, _ = strings.Cut(name, " ")
		tried[name] = true
	}
	names, err := os.ReadFile("../protocol/names.go")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^\tActivity\w+ += "(\w+)"$`).FindAllStringSubmatch(string(names), -1)
	require.GreaterOrEqual(t, len(found), 17)
	for _, name := range found {
		require.True(t, tried[name[1]] || told[name[1]] || none[name[1]], "%s: does it read or write blobs?", name[1])
	}

	call, g, p := b.callOf("run", `{"path":"a"}`)
	call.Store = "elsewhere"
	b.granted(protocol.Keyring{}.Sign(g, p))
	r := b.invoke(call, "run")
	require.Equal(t, tool.ContractDrift, r.Code, "another worker may have the right one")
	require.ErrorContains(t, ofResult(r), `"elsewhere"`)
	require.ErrorContains(t, ofResult(r), `"memory"`)
	require.Empty(t, b.ran)
}

// A missing blob may come late; one that is altered never heals, and is not waited for.
func TestBlobsThatAreMissingOrAltered(t *testing.T) {
	b := newBench(t, activities.Config{Models: map[string]model.Model{"m": text("hello")}})
	ref, err := b.store.Put(t.Context(), raw(pathIn{"a"}))
	require.NoError(t, err)
	gone, altered, nonsense := refOf("gone"), ref, blob.Ref{SHA256: "../../etc/passwd", Size: 1}
	altered.Size++
	for name, run := range readers(b) {
		t.Run(name, func(t *testing.T) {
			err := run("memory", &gone)
			requireType(t, err, protocol.ErrorBlobMissing, true)
			require.ErrorContains(t, err, gone.SHA256)
			requireType(t, run("memory", &altered), protocol.ErrorBlobAltered, false)
			requireType(t, run("memory", &nonsense), protocol.ErrorBlobAltered, false)
		})
	}
	for want, ref := range map[tool.Code]blob.Ref{tool.ContractDrift: gone, tool.ToolError: altered} {
		call, g, p := b.callOf("run", `{"path":"a"}`)
		call.Input, call.InputRef = nil, &ref
		b.granted(protocol.Keyring{}.Sign(g, p))
		r := b.invoke(call, "run")
		require.Equal(t, want, r.Code)
		require.False(t, r.Failure.Started)
		require.ErrorContains(t, ofResult(r), ref.SHA256)
		require.Empty(t, b.ran)
	}
}

// Observers hear of a call whose arguments are in another store, without them.
func TestObserversGetNothingFromAnotherStore(t *testing.T) {
	var heard []string
	b := newBench(t, activities.Config{}, pipeline.PluginFunc("watch", func(s *pipeline.Scope) error {
		return s.Observe(func(_ context.Context, c pipeline.Call, _ tool.Result) error {
			heard = append(heard, string(c.Input))
			return nil
		})
	}))
	ref, err := b.store.Put(t.Context(), raw(pathIn{"a"}))
	require.NoError(t, err)
	for _, store := range []string{"memory", "elsewhere"} {
		require.NoError(t, b.call(protocol.ActivityObserve, b.engine.Observe, protocol.ObserveRequest{
			Call: tool.Call{ID: "c", Name: "run", InputRef: &ref, Store: store}, Result: tool.Fail(tool.Skipped, "m")}, nil))
	}
	require.Equal(t, []string{`{"path":"a"}`, ""}, heard)
}
