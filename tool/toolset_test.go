package tool_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/tool"
)

func info(name string, change ...func(*tool.Info)) tool.Info {
	i := tool.Info{Name: name, Description: "d", Parameters: json.RawMessage(`{"type":"object"}`)}
	for _, c := range change {
		c(&i)
	}
	return i
}

func TestContract(t *testing.T) {
	version := "1"
	got, err := tool.Contract(info("a", func(i *tool.Info) {
		i.Parameters = json.RawMessage(`{ "type":"object", "maximum":1.0, "description":"<b>" }`)
		i.Version, i.Risk, i.Timeout, i.Executor, i.NeedsApproval, i.Idempotent = &version, tool.Read, time.Second, "vm", true, true
	}))
	require.NoError(t, err)
	require.Equal(t, `{"description":"d","name":"a","parameters":{"description":"<b>","maximum":1,"type":"object"},"version":"1"}`, string(got))

	for name, change := range map[string]func(*tool.Info){
		"name":        func(i *tool.Info) { i.Name = "\xff" },
		"description": func(i *tool.Info) { i.Description = "\xff" },
		"version":     func(i *tool.Info) { v := "\xff"; i.Version = &v },
		"parameters":  func(i *tool.Info) { i.Parameters = json.RawMessage(`{"a":1,"a":1}`) },
		"nothing":     func(i *tool.Info) { i.Parameters = nil },
	} {
		bad := info("a", change)
		_, err := tool.Contract(bad)
		require.Error(t, err, name)
		require.Empty(t, tool.ContractHash(bad))
		require.Empty(t, tool.ToolsetHash([]tool.Info{bad}))
	}
	_, err = tool.Contract(info("a", func(i *tool.Info) { i.Parameters = json.RawMessage(`{"a":1,"a":1}`) }))
	require.ErrorIs(t, err, canonjson.ErrDuplicateKey)
}

// The contract covers what the model reads, the authority what the tool may do, and neither the rest.
func TestWhatTheHashesCover(t *testing.T) {
	for _, c := range []struct {
		name                string
		change              func(*tool.Info)
		contract, authority bool
	}{
		{"name", func(i *tool.Info) { i.Name = "b" }, true, true},
		{"description", func(i *tool.Info) { i.Description += " " }, true, false},
		{"parameters", func(i *tool.Info) { i.Parameters = json.RawMessage(`{"type":"object","title":"x"}`) }, true, false},
		{"parameters in other words", func(i *tool.Info) { i.Parameters = json.RawMessage(`{ "type": "object" }`) }, false, false},
		{"version", func(i *tool.Info) { i.Version = new(string) }, true, false},
		{"risk", func(i *tool.Info) { i.Risk = tool.Read }, false, true},
		{"needsApproval", func(i *tool.Info) { i.NeedsApproval = true }, false, true},
		{"executor", func(i *tool.Info) { i.Executor = "vm" }, false, true},
		{"the default executor", func(i *tool.Info) { i.Executor = tool.InProcess }, false, false},
		{"timeout", func(i *tool.Info) { i.Timeout = 1 }, false, true},
		{"idempotent", func(i *tool.Info) { i.Idempotent = true }, false, false},
		{"concurrent", func(i *tool.Info) { i.Concurrent = true }, false, false},
	} {
		was, is := info("a"), info("a", c.change)
		require.Equal(t, c.contract, tool.ContractHash(was) != tool.ContractHash(is), c.name)
		require.Equal(t, c.authority, tool.AuthorityHash(was) != tool.AuthorityHash(is), c.name)
	}
	d, err := tool.New("find", "d", runFind, tool.Write)
	require.NoError(t, err)
	require.Equal(t, tool.ContractHash(d.Info()), d.ContractHash())
	require.Equal(t, tool.AuthorityHash(d.Info()), d.AuthorityHash())
}

func TestToolset(t *testing.T) {
	version := "1"
	set, err := tool.NewToolset(info("b"), info("a", func(i *tool.Info) { i.Version = &version }), info("B"))
	require.NoError(t, err)
	require.Equal(t, []string{"B", "a", "b"}, set.Names())
	require.Equal(t, 3, set.Len())
	require.Equal(t, tool.ToolsetHash(set.Infos()), set.Hash())

	got, ok := set.Lookup("a")
	require.True(t, ok)
	require.Equal(t, "1", *got.Version)
	for _, name := range []string{"", "A", "c", "a "} {
		_, ok = set.Lookup(name)
		require.False(t, ok, name)
	}

	// A toolset is frozen: neither what went in nor what came out can change it.
	hash := set.Hash()
	*got.Version, got.Parameters[2] = "2", 'X'
	version = "3"
	set.Infos()[0].Parameters[2] = 'X'
	require.Equal(t, hash, set.Hash())
}

func TestToolsetJSON(t *testing.T) {
	d, err := tool.FromSchema("a", "d", json.RawMessage(`{"type":"object","title":"<&>","maximum":1.0}`), echo, tool.Write, tool.Version(""), tool.Timeout(time.Minute))
	require.NoError(t, err)
	set, err := tool.ToolsetOf(d)
	require.NoError(t, err)
	data, err := json.Marshal(set)
	require.NoError(t, err)
	var back tool.Toolset
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, set.Hash(), back.Hash())
	require.Equal(t, set.AuthorityHash(), back.AuthorityHash())
	again, err := json.Marshal(back)
	require.NoError(t, err)
	require.Equal(t, string(data), string(again))

	data, err = json.Marshal(tool.Toolset{})
	require.NoError(t, err)
	require.Equal(t, `[]`, string(data))
	require.NoError(t, json.Unmarshal(data, &back))
	require.Zero(t, back.Len())
	require.Equal(t, canonjson.SHA256([]byte(`[]`)), back.Hash())

	for name, bad := range map[string]string{
		"no array":      `{}`,
		"no name":       `[{"description":"d","parameters":{}}]`,
		"unknown risk":  `[{"name":"a","parameters":{},"risk":"spicy"}]`,
		"no parameters": `[{"name":"a"}]`,
		"twice":         `[{"name":"a","parameters":{}},{"name":"a","parameters":{}}]`,
	} {
		require.Error(t, json.Unmarshal([]byte(bad), &back), name)
	}
	_, err = tool.NewToolset(info("a"), info("b"), info("a"))
	require.True(t, fault.IsConfig(err))
	require.ErrorContains(t, err, "tools.a: the toolset has two tools of this name")
}

func TestAttestation(t *testing.T) {
	set := func(infos ...tool.Info) tool.Toolset {
		s, err := tool.NewToolset(infos...)
		require.NoError(t, err)
		return s
	}
	was := set(info("a"), info("b"), info("c"))
	attested := tool.Attest(was)
	require.NoError(t, attested.Check(was))
	require.NoError(t, tool.Attest(tool.Toolset{}).Check(tool.Toolset{}))

	// It survives the policy file that it lives in.
	data, err := json.Marshal(attested)
	require.NoError(t, err)
	var read tool.Attestation
	require.NoError(t, json.Unmarshal(data, &read))
	require.NoError(t, read.Check(was))

	err = attested.Check(set(
		info("a", func(i *tool.Info) { i.Risk = tool.Read }),
		info("b", func(i *tool.Info) { i.Description = "e"; i.NeedsApproval = true }),
		info("d")))
	var drift *tool.DriftError
	require.ErrorAs(t, err, &drift)
	require.Equal(t, &tool.DriftError{Missing: []string{"c"}, Added: []string{"d"}, Contract: []string{"b"}, Authority: []string{"a", "b"}}, drift)
	require.EqualError(t, err, "toolset differs from its attestation: missing: c; added: d; contract changed: b; authority changed: a, b")
	require.True(t, fault.IsConfig(err))

	require.ErrorContains(t, tool.Attestation{}.Check(was), "added: a, b, c")
	require.ErrorContains(t, tool.Attestation{}.Check(tool.Toolset{}), "contradicts itself", "what attests nothing admits nothing")
	forged := tool.Attest(was)
	forged.AuthorityHash = tool.Attest(tool.Toolset{}).AuthorityHash
	require.ErrorContains(t, forged.Check(was), "contradicts itself")
}

// shelf is a Source as an MCP client would be one.
type shelf []*tool.Def

func (shelf) Name() string                                 { return "shelf" }
func (s shelf) Tools(context.Context) ([]*tool.Def, error) { return s, nil }

func TestSource(t *testing.T) {
	var source tool.Source = shelf{tool.MustNew("find", "d", runFind)}
	defs, err := source.Tools(t.Context())
	require.NoError(t, err)
	set, err := tool.ToolsetOf(defs...)
	require.NoError(t, err)
	require.Equal(t, []string{"find"}, set.Names())
}

func TestResultHelpers(t *testing.T) {
	require.True(t, tool.Result{Code: tool.OK}.IsOK())
	denied := tool.Deny(tool.ByRule, "deny x", "not allowed")
	require.False(t, denied.IsOK())
	require.Equal(t, tool.Result{Code: tool.Denied, Failure: &tool.Failure{Message: "not allowed", Reason: tool.ByRule, By: "deny x"}}, denied)
	require.True(t, info("a", func(i *tool.Info) { i.Risk = tool.Read }).Repeatable())
	require.True(t, info("a", func(i *tool.Info) { i.Risk = tool.Write; i.Idempotent = true }).Repeatable())
	require.False(t, info("a").Repeatable())
}
