package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

// jsonLines calls visit with each line of a file below permission.
func jsonLines(t *testing.T, name string, visit func(line []byte)) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "permission", name))
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		visit(lines.Bytes())
		n++
	}
	require.NoError(t, lines.Err())
	require.NotZero(t, n)
}

// binary is the command as it is built for its users.
func binary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "starter")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// answers runs a command in process, and for one row in twenty the binary too, which must say the same.
type answers struct {
	binary string
	n      int
}

func (a *answers) run(t *testing.T, stdin string, args ...string) (stdout string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(stdin), &out, &errs)
	if a.n++; a.n%20 == 1 {
		cmd := exec.Command(a.binary, args...)
		cmd.Stdin = strings.NewReader(stdin)
		var real bytes.Buffer
		cmd.Stdout = &real
		if err := cmd.Run(); err != nil {
			require.Equal(t, code, cmd.ProcessState.ExitCode(), "%v", args)
		}
		require.Equal(t, out.String(), real.String(), "%v", args)
	}
	if code != 0 {
		return errs.String(), code
	}
	return out.String(), code
}

// What the command says is what the library says.
func TestConformance(t *testing.T) {
	cli := &answers{binary: binary(t)}
	t.Run("match", func(t *testing.T) { matchCorpora(t, cli) })
	t.Run("explain", func(t *testing.T) { explainVectors(t, cli) })
}

// Every row of the shell corpora has the same answer from `starter match` as from the library, and one that is not looser
// than the row says.
func matchCorpora(t *testing.T, cli *answers) {
	strictness := map[string]int{"deny": 0, "ask": 1, "allow": 2}
	for _, file := range []string{"corpus", "reference"} {
		jsonLines(t, filepath.Join("argv", "testdata", file+".jsonl"), func(line []byte) {
			var r struct {
				ID, Command, Expected, Match string
				Allow, Ask, Deny             []string
			}
			require.NoError(t, json.Unmarshal(line, &r))
			args := []string{"match", "-o", "json"}
			for flag, patterns := range map[string][]string{"--allow": r.Allow, "--ask": r.Ask, "--deny": r.Deny} {
				for _, p := range patterns {
					args = append(args, flag, p)
				}
			}
			want, err := permission.MatchShellCommand(r.Command, permission.Tables{Allow: r.Allow, Ask: r.Ask, Deny: r.Deny})
			require.NoError(t, err)
			commands := [][]string{{"--file", "-"}, {"--", r.Command}}
			if strings.ContainsRune(r.Command, 0) {
				commands = commands[:1] // no argument holds it
			}
			for _, how := range commands {
				text, code := cli.run(t, r.Command, append(append([]string{}, args...), how...)...)
				require.Zero(t, code, "%s: %s", r.ID, text)
				var got permission.ShellDecision
				require.NoError(t, json.Unmarshal([]byte(text), &got))
				require.Equal(t, want, got, r.ID)
				if r.Match == "atLeast" {
					require.LessOrEqual(t, strictness[got.Verdict.String()], strictness[r.Expected], r.ID)
				} else {
					require.Equal(t, r.Expected, got.Verdict.String(), r.ID)
				}
			}
		})
	}
}

// Every row of the chain's vectors that a file can say has the same decision from `starter explain` as it wants and as
// the library gives.
func explainVectors(t *testing.T, cli *answers) {
	dir, files, configErrors := t.TempDir(), 0, 0
	jsonLines(t, filepath.Join("testdata", "chain.jsonl"), func(line []byte) {
		var r struct {
			ID                      string
			Engine, Profile, Parent json.RawMessage
			Isolation, Input        json.RawMessage
			Tool                    struct {
				Name          string
				Risk          tool.Risk
				NeedsApproval bool
			}
			Verdict, DecidedBy string
			Rule, FinalInput   json.RawMessage
			Advisories         []json.RawMessage
			ConfigError        bool
		}
		require.NoError(t, json.Unmarshal(line, &r))
		if strings.Contains(string(line), `"hooks"`) || strings.Contains(string(line), `"canUseTool"`) {
			return // a file has no code
		}
		files++
		profiles := map[string]any{"p": map[string]any{"permissions": r.Profile}}
		if r.Isolation != nil {
			profiles["p"] = map[string]any{"permissions": r.Profile, "isolation": r.Isolation}
		}
		args := []string{"explain", "-o", "json", "--policy", filepath.Join(dir, r.ID+".yaml"), "--profile", "p", "--tool", r.Tool.Name, "--input-file", "-"}
		if r.Parent != nil {
			profiles["parent"] = map[string]any{"permissions": r.Parent}
			args = append(args, "--parent", "parent")
		}
		args = append(args, "--risk", "undeclared")
		if r.Tool.Risk != "" {
			args[len(args)-1] = string(r.Tool.Risk)
		}
		if r.Tool.NeedsApproval {
			args = append(args, "--needs-approval")
		}
		policy, err := json.Marshal(map[string]any{"engine": r.Engine, "profiles": profiles}) // JSON is YAML
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, r.ID+".yaml"), policy, 0o600))
		text, code := cli.run(t, string(r.Input), args...)
		if r.ConfigError {
			configErrors++
			require.Equal(t, exit.Usage, code, "%s: %s", r.ID, text)
			require.Regexp(t, `^error: .*\.yaml:1:\d+: `, text, r.ID)
			return
		}
		require.Zero(t, code, "%s: %s", r.ID, text)
		var d struct {
			Verdict, DecidedBy, PolicyDigest string
			Rule, Input                      json.RawMessage
			Advisories                       []struct{ Rule json.RawMessage }
		}
		require.NoError(t, json.Unmarshal([]byte(text), &d), text)
		require.Equal(t, r.Verdict, d.Verdict, "%s: %s", r.ID, text)
		require.Equal(t, r.DecidedBy, d.DecidedBy, r.ID)
		require.JSONEq(t, string(r.FinalInput), string(d.Input), r.ID)
		require.Equal(t, r.Rule == nil, d.Rule == nil, r.ID)
		if r.Rule != nil {
			require.JSONEq(t, string(r.Rule), string(d.Rule), r.ID)
		}
		require.Len(t, d.Advisories, len(r.Advisories), r.ID)
		for i := range r.Advisories {
			require.JSONEq(t, string(r.Advisories[i]), string(d.Advisories[i].Rule), r.ID)
		}
		require.Equal(t, libraryDigest(t, r.Engine, r.Profile, r.Parent, string(r.Isolation) == `"readonly"`), d.PolicyDigest, r.ID)
	})
	require.Greater(t, files, 100)
	require.NotZero(t, configErrors)
}

func libraryDigest(t *testing.T, engine, profile, parent json.RawMessage, readonly bool) string {
	t.Helper()
	spec := permission.Spec{Readonly: readonly}
	require.NoError(t, json.Unmarshal(engine, &spec.Engine))
	require.NoError(t, json.Unmarshal(profile, &spec.Profile))
	if parent != nil {
		spec.Parent = &permission.Layer{}
		require.NoError(t, json.Unmarshal(parent, spec.Parent))
	}
	chain, err := permission.Compile(spec)
	require.NoError(t, err)
	return chain.Digest()
}
