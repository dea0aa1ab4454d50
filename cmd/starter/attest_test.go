package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/tool"
)

// What attest prints, put under the profile's permissions, is read and holds for exactly these tools.
func TestPolicyAttest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "assent.yaml")
	write := func(tools, attestation string) {
		text := "profiles:\n  p:\n    tools: [" + tools + "]\n    permissions:\n      preset: standard\n" + attestation
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	attest := func(want int, args ...string) string {
		var stdout, stderr bytes.Buffer
		require.Equal(t, want, run(context.Background(), append([]string{"policy", "attest"}, args...), nil, &stdout, &stderr), stderr.String())
		return stdout.String() + stderr.String()
	}
	write("files, shell", "")
	printed := attest(exit.OK, "--policy", path, "--profile", "p")
	write("files, shell", "      "+strings.ReplaceAll(strings.TrimSpace(printed), "\n", "\n      ")+"\n")
	file, err := config.Load(path)
	require.NoError(t, err)
	attested := file.Profiles["p"].Permissions
	require.Equal(t, "standard", string(attested.Preset))
	held := file.Profiles["p"].Attestation
	require.NotNil(t, held)
	set, err := stockToolset(file, []string{"shell", "files"})
	require.NoError(t, err)
	require.NoError(t, held.Check(set))
	other, err := stockToolset(file, []string{"files", "exec"})
	require.NoError(t, err)
	require.ErrorContains(t, held.Check(other), "missing: shell; added: exec")

	var asJSON tool.Attestation
	require.NoError(t, json.Unmarshal([]byte(attest(exit.OK, "--policy", path, "--profile", "p", "-o", "json")), &asJSON))
	require.Equal(t, *held, asJSON)

	write("files, mine", "")
	require.Contains(t, attest(exit.Usage, "--policy", path, "--profile", "p"), `the stock worker has no tool "mine"`)
	write("shell, shell", "")
	require.Contains(t, attest(exit.Usage, "--policy", path, "--profile", "p"), `"shell" stands twice`)
	write("shell", "")
	require.Contains(t, attest(exit.Usage, "--policy", path, "--profile", "q"), `unknown profile "q"`)
	require.Contains(t, attest(exit.Usage, "--profile", "q"), "--policy is missing")
	require.Contains(t, attest(exit.Usage, "--policy", path), "--profile is missing")
}
