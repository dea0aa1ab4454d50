package permission_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

func TestProposeVetted(t *testing.T) {
	for input, want := range map[string][]string{
		`{"command":"go test ./..."}`:                                {"go test ./..."},
		`{"command":"go test ./... && go vet 'a b'; go test ./..."}`: {"go test ./...", "go vet 'a b'"},
		`{"argv":["go","test","a b"]}`:                               {"go test 'a b'"},
	} {
		line, err := permission.ProposeVetted("shell", json.RawMessage(input))
		require.NoError(t, err, input)
		require.Equal(t, permission.Vetted{Tool: permission.Many("shell"), Argv: permission.Many(want...)}, line, input)
	}
	for input, want := range map[string]string{
		`{"path":"a"}`:                   "only commands can be vetted, and the input has no command",
		`{"command":1}`:                  "only commands can be vetted, and the command is not a string",
		`{"command":"rm $x"}`:            `no pattern allows exactly "rm $x"`,
		`{"command":"echo *"}`:           `no pattern allows exactly "echo *"`,
		`{"command":""}`:                 `no pattern allows exactly ""`,
		`{"command":"ls","command":"w"}`: "only commands can be vetted, and the input has more than one command",
	} {
		_, err := permission.ProposeVetted("shell", json.RawMessage(input))
		require.EqualError(t, err, want, input)
	}
}

// A proposed line allows exactly the call that it was made for, and only what no deny and no ask pattern names.
func TestRunVetted(t *testing.T) {
	verdict := func(s permission.Spec, command string) permission.Verdict {
		c, err := permission.Compile(s)
		require.NoError(t, err)
		raw, err := json.Marshal(map[string]string{"command": command})
		require.NoError(t, err)
		return c.Decide(context.Background(), permission.Call{Tool: tool.Info{Name: "shell", Risk: tool.Execute}, Input: raw}, nil).Verdict
	}
	line, err := permission.ProposeVetted("shell", json.RawMessage(`{"command":"go test ./..."}`))
	require.NoError(t, err)
	s := permission.Spec{Engine: permission.Layer{Preset: permission.Standard}}
	require.Equal(t, permission.Ask, verdict(s, "go test ./..."))
	s.RunVetted = []permission.Vetted{line}
	require.Equal(t, permission.Allow, verdict(s, "go test ./..."))
	require.Equal(t, permission.Ask, verdict(s, "go test ./... -v"))
	require.Equal(t, permission.Ask, verdict(s, "go test ./... > x"))
	s.Profile.Deny = []permission.Rule{{Tool: permission.Many("shell"), Argv: permission.Many("go test **")}}
	require.Equal(t, permission.Deny, verdict(s, "go test ./..."))
	s.Profile.Deny, s.Profile.Ask = nil, s.Profile.Deny
	require.Equal(t, permission.Ask, verdict(s, "go test ./..."))

	_, err = permission.Compile(permission.Spec{RunVetted: []permission.Vetted{{}}})
	require.ErrorContains(t, err, "run.vetted[0]")
}
