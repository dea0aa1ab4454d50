package permission_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

// row is one line of testdata/chain.jsonl.
type row struct {
	ID              string `json:"id"`
	Engine, Profile rowLayer
	Parent          *rowLayer
	Isolation       json.RawMessage
	Tool            struct {
		Name          string
		Risk          tool.Risk
		NeedsApproval bool
	}
	Input       json.RawMessage
	Verdict     permission.Verdict
	DecidedBy   permission.Decider
	Rule        *permission.Rule
	FinalInput  json.RawMessage
	Advisories  []permission.Rule
	ConfigError bool
}

// rowLayer is a layer whose hooks and canUseTool are constants.
type rowLayer struct {
	permission.Layer
}

func (l *rowLayer) UnmarshalJSON(b []byte) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	var hooks []json.RawMessage
	if raw, ok := m["hooks"]; ok {
		if err := json.Unmarshal(raw, &hooks); err != nil {
			return err
		}
	}
	canUseTool, hasCanUseTool := m["canUseTool"]
	delete(m, "hooks")
	delete(m, "canUseTool")
	rest, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(rest, &l.Layer); err != nil {
		return err
	}
	for _, h := range hooks {
		answer := constant(h)
		l.Hooks = append(l.Hooks, permission.Hook{Judge: func(context.Context, permission.Call) (permission.Answer, error) {
			return answer, nil
		}})
	}
	if hasCanUseTool {
		answer := constant(canUseTool)
		l.CanUseTool = func(context.Context, permission.Call) (permission.Answer, error) { return answer, nil }
	}
	return nil
}

func constant(raw json.RawMessage) permission.Answer {
	switch string(raw) {
	case "null":
		return permission.Answer{}
	case `"allow"`:
		return permission.AnswerAllow()
	case `"deny"`:
		return permission.AnswerDeny("")
	case `"ask"`:
		return permission.AnswerAsk("")
	}
	var m struct {
		Modify json.RawMessage
	}
	if err := json.Unmarshal(raw, &m); err != nil || m.Modify == nil {
		panic("unknown constant " + string(raw))
	}
	return permission.AnswerModify(m.Modify)
}

func TestChainVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/chain.jsonl")
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var head struct {
			ID          string
			ConfigError bool
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &head))
		t.Run(head.ID, func(t *testing.T) {
			var r row
			err := json.Unmarshal(lines.Bytes(), &r)
			if err != nil {
				require.True(t, head.ConfigError, "decode: %v", err)
				require.True(t, fault.IsConfig(err), "decode: %v", err)
				return
			}
			spec := permission.Spec{Engine: r.Engine.Layer, Profile: r.Profile.Layer, Readonly: string(r.Isolation) == `"readonly"`}
			if r.Parent != nil {
				spec.Parent = &r.Parent.Layer
			}
			c, err := permission.Compile(spec)
			if r.ConfigError {
				require.True(t, fault.IsConfig(err), "got %v", err)
				return
			}
			require.NoError(t, err)
			info := tool.Info{Name: r.Tool.Name, Risk: r.Tool.Risk, NeedsApproval: r.Tool.NeedsApproval}
			d := permission.Explain(c, info, r.Input)
			require.Equal(t, r.Verdict, d.Verdict, "%+v", d)
			require.Equal(t, r.DecidedBy, d.DecidedBy)
			require.Equal(t, r.Rule, d.Rule)
			require.JSONEq(t, string(r.FinalInput), string(d.Input))
			var listed []permission.Rule
			for _, a := range d.Advisories {
				listed = append(listed, a.Rule)
			}
			require.Equal(t, r.Advisories, listed)
			require.Equal(t, c.Digest(), d.PolicyDigest)
		})
	}
	require.NoError(t, lines.Err())
}
