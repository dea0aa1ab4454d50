package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/permission"
)

// called is what a command in process printed.
type called struct {
	code     int
	out, err string
}

func call(stdin string, args ...string) called {
	var out, errs bytes.Buffer
	code := run(context.Background(), args, strings.NewReader(stdin), &out, &errs)
	return called{code, out.String(), errs.String()}
}

// Arguments that nobody would write get an answer in words, and in a screen or two of them.
func TestExplainHostileInput(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte("engine: {deny: [{tool: shell, argv: rm **}]}"), 0o600))
	deep := func(open, inner, end string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	for name, c := range map[string]struct {
		input, says string
		code        int
	}{
		"lists 100,000 deep":       {deep("[", "", "]", 100_000), "--input is not JSON: byte 10001: ", exit.Usage},
		"objects 100,000 deep":     {deep(`{"a":`, "1", "}", 100_000), "--input is not JSON: byte ", exit.Usage},
		"open 100,000 deep":        {strings.Repeat("[", 100_000), "--input is not JSON: byte 10001: ", exit.Usage},
		"9000 deep":                {deep(`{"a":`, "1", "}", 9000), "INVALID_ARGUMENTS", exit.OK},
		"5 MB command":             {`{"command":"echo ` + strings.Repeat("x", 5<<20) + `"}`, "more than 64 KiB", exit.OK},
		"very many members":        {`{"command":"rm x"` + strings.Repeat(`,"a":1`, 100_000) + `}`, "deny ", exit.OK},
		"very many commands":       {`{"command":"ls"` + strings.Repeat(`,"command":"rm x"`, 40_000) + `}`, "deny ", exit.OK},
		"17 MiB":                   {strings.Repeat(" ", 17<<20), "is larger than 16 MiB", exit.Usage},
		"a deny hidden by a twin":  {`{"command":"rm x","command":"ls"}`, "deny ", exit.OK},
		"a list":                   {`["rm x"]`, "INVALID_ARGUMENTS: arguments must be one JSON object", exit.OK},
		"null":                     {`null`, "INVALID_ARGUMENTS: arguments must be one JSON object", exit.OK},
		"a lone surrogate":         {`{"command":"\ud800"}`, "INVALID_ARGUMENTS", exit.OK},
		"bytes that are not UTF-8": {"{\"command\":\"\xff\"}", "INVALID_ARGUMENTS", exit.OK},
		"two values":               {`{} {}`, "byte 4", exit.Usage},
		"a BOM":                    {"\ufeff{}", "--input is not JSON: byte 1", exit.Usage},
		"nothing":                  {"", "it is empty", exit.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			for _, more := range [][]string{nil, {"-o", "json"}} {
				got := call(c.input, append([]string{"explain", "--policy", policy, "--tool", "shell", "--input", "-"}, more...)...)
				require.Equal(t, c.code, got.code, got.err)
				if more == nil {
					require.Contains(t, got.out+got.err, c.says)
					require.Less(t, len(got.out)+len(got.err), 64<<10, "a person reads it")
				} else if c.code == exit.OK {
					var d permission.Decision
					require.NoError(t, json.Unmarshal([]byte(got.out), &d))
					if !strings.Contains(c.says, "INVALID") {
						require.NotEqual(t, permission.Allow, d.Verdict)
					}
				}
			}
		})
	}
}

// Whatever a command or a name holds, what reaches the terminal is visible text, and JSON says the same as before.
func TestNothingHidesInOutput(t *testing.T) {
	var all strings.Builder
	for r := rune(1); r < 0x3000; r++ {
		all.WriteRune(r)
	}
	all.WriteString("\ue000\ufeff\ufff9\ufffd\U000e0041\U0001f600\U0010ffff")
	visible := func(t *testing.T, text string) {
		for _, r := range text {
			require.True(t, r == '\n' || r == '\t' || approval.Visible(r), "%q", r)
		}
	}
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte("engine: {deny: [{tool: shell, argv: rm **}]}"), 0o600))
	input, err := json.Marshal(map[string]string{"command": all.String()})
	require.NoError(t, err)
	for _, args := range [][]string{
		{"match", "--allow", "ls **", "--", all.String()},
		{"match", "--allow", all.String(), "--", "ls"},
		{"explain", "--policy", policy, "--tool", "shell", "--input", string(input)},
		{"explain", "--policy", policy, "--tool", all.String(), "--input", string(input)},
		{"explain", "--policy", policy, "--profile", all.String(), "--tool", "shell"},
		{"explain", "--policy", policy, "--tool", "x", "--risk", all.String()},
		{"explain", "--policy", policy, "--tool", "x", "--input", all.String()},
		{"policy", "check", all.String()},
		{"policy", all.String()},
	} {
		for _, output := range []string{"text", "json"} {
			got := call("", append([]string{args[0], "-o", output}, args[1:]...)...)
			if args[0] == "policy" && args[1] == "check" {
				got = call("", append(args, "-o", output)...)
			}
			visible(t, got.out)
			visible(t, got.err)
			require.NotEmpty(t, got.out+got.err)
			if output == "json" && args[0] == "explain" && got.code == 0 {
				var d permission.Decision
				require.NoError(t, json.Unmarshal([]byte(got.out), &d))
				require.JSONEq(t, string(input), string(d.Input), "the same value")
			}
		}
	}
	require.Equal(t, `"a\u202e\udb40\udc41\ufffd`+"é&\n", plainJSON([]byte("\"a\u202e\U000e0041\xffé&\n")))
}

// What nobody got to read is no success.
func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{{"match", "--allow", "ls", "--", "ls"}, {"match", "-o", "json", "--", "ls"}, {"--help"}} {
		var errs bytes.Buffer
		code := run(context.Background(), args, strings.NewReader(""), full{}, &errs)
		require.Equal(t, exit.Failed, code, args)
		require.Contains(t, errs.String(), "no space")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

// A flag that makes another tool of a known one says so.
func TestExplainSaysThatAToolIsAnother(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte("profiles: {p: {permissions: {preset: standard}}}"), 0o600))
	args := []string{"explain", "--policy", policy, "--profile", "p", "--tool", "shell", "--input", `{"command":"ls"}`}
	require.NotContains(t, call("", args...).out, "this is not the tool")
	require.Contains(t, call("", append(args, "--risk", "read")...).out, "this is not the tool shell of a worker, which declares risk execute")
}
