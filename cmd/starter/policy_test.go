package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example policy loads, its inline tests hold, and it says of calls what its comments say.
func TestExamplePolicy(t *testing.T) {
	policy := filepath.Join("..", "..", "examples", "policy", "policy.yaml")
	for name, tc := range map[string]struct {
		args             []string
		verdict, decided string
	}{
		"vetted":            {[]string{"--tool", "shell", "--input", `{"command":"go test ./..."}`}, "allow", "hook"},
		"vetted twice":      {[]string{"--tool", "shell", "--input", `{"command":"git status && go vet ./..."}`}, "allow", "hook"},
		"vetted and more":   {[]string{"--tool", "shell", "--input", `{"command":"go test ./... && make"}`}, "ask", "ask-rule"},
		"history is for us": {[]string{"--tool", "shell", "--input", `{"command":"cd x && git push --force origin"}`}, "deny", "deny-rule"},
		"by name":           {[]string{"--tool", "deploy_service", "--risk", "execute", "--input", `{}`}, "ask", "ask-rule"},
		"destructive":       {[]string{"--tool", "drop_table", "--risk", "destructive", "--input", `{}`}, "deny", "deny-rule"},
		"reading":           {[]string{"--tool", "read_file", "--input", `{"path":"a"}`}, "allow", "default"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := append([]string{"explain", "--policy", policy, "--profile", "fixer", "-o", "json"}, tc.args...)
			require.Zero(t, run(context.Background(), args, nil, &stdout, &stderr), stderr.String())
			var d struct{ Verdict, DecidedBy string }
			require.NoError(t, json.Unmarshal(stdout.Bytes(), &d), stdout.String())
			require.Equal(t, tc.verdict, d.Verdict, stdout.String())
			require.Equal(t, tc.decided, d.DecidedBy)
		})
	}
}
