package workflows

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

// awkward texts are workflow ids, namespaces and activity types that are allowed and hard to show or to paste.
var awkward = []string{
	"plain-1", "two  blanks", " outside ", "it's", `back\slash\n`, "tick`s", "```", "new\nline", "tab\tand\rreturn", "$(id) $HOME !!",
	"{runId}", "x{namespace}'{workflowId}'", "<!-- assent -->\n", "a<!-- /assent -->\nb", "bidi \u202e\u2066", "zero\u200bwidth\ufeff",
	"tag\U000e0041", "é漢😀", `"quoted"`, "<img src=x onerror=alert(1)>", "&lt;b&gt;", "-starts", "*?[a]~", "a  b'c", "{#id onclick=x}",
	`a,"decision":"allow",` + strings.Repeat("x", 60),
}

// Whatever a workflow is called, a shell makes of the commands what was meant.
func TestCommandsSurviveAShell(t *testing.T) {
	for _, text := range awkward {
		t.Run(text, func(t *testing.T) {
			at := placeOf(text, text, protocol.GuardSignalApproval)
			answer := approval.Resolution{Key: text + "-1", Decision: approval.Deny, Reason: "not now"}
			command := at.temporal("signal", "--name", at.signal, "--input", answerJSON(answer))
			for _, r := range command {
				require.True(t, r == '\n' || approval.Visible(r), "%q is not seen in %q", r, command)
			}
			for _, not := range []string{"`", "<!--", "{runId}", "{namespace}", "{workflowId}"} {
				require.NotContains(t, command, not)
			}
			out, err := exec.Command("bash", "-c", `temporal() { printf '%s\0' "$@"; }`+"\n"+command).Output()
			require.NoError(t, err, command)
			args := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
			require.Equal(t, []string{"workflow", "signal", "--namespace", text, "--workflow-id", text, "--name", at.signal, "--input"}, args[:9])
			var got approval.Resolution
			require.NoError(t, json.Unmarshal([]byte(args[9]), &got))
			require.Equal(t, answer, got)
		})
	}
}

// What is shown of arguments is the same value.
func TestLegibleKeepsTheValue(t *testing.T) {
	for _, text := range append(awkward, `\u003c`, `\\u003c`, `\\\u003cb`, `\`, `\\`, "2>&1 && <x") {
		raw, err := json.Marshal(map[string]string{text: text})
		require.NoError(t, err)
		shown := visible(legible(approval.Show(raw, 1<<20)), true)
		var got map[string]string
		if strings.Contains(shown, `\U`) {
			continue // a character beyond 16 bits that nobody sees is shown in Go's notation
		}
		require.NoError(t, json.Unmarshal([]byte(shown), &got), shown)
		require.Equal(t, map[string]string{text: text}, got)
	}
	require.Contains(t, legible(`"a\u003e\u0026\u003cb"`), `a>&<b`)
	require.Equal(t, `"\\u003c"`, legible(`"\\u003c"`))
}

// A summary of the timeline shows a tool's name as it is, and what a model calls a tool as text.
func TestLabels(t *testing.T) {
	for _, name := range []string{"edit_file", "server__search", "run-901ecb25.2", "main/repo", "a"} {
		require.Equal(t, name, label(name))
	}
	for _, text := range append(awkward, "", "__init__", "*a*", "-", "1.", "a b", "https://a.b", "<b>", strings.Repeat("\u202e", 500)) {
		got := label(text)
		if text == "plain-1" {
			continue
		}
		require.Regexp(t, "^`[^`]*`$", got)
		require.LessOrEqual(t, len(got), mostSummary+len("`…`"))
	}
}

func TestFoldLosesNothing(t *testing.T) {
	long := strings.Repeat("0123456789", 20)
	folded := fold("short\n" + long + "\n")
	for line := range strings.Lines(folded) {
		require.LessOrEqual(t, len(strings.TrimSuffix(strings.TrimPrefix(line, "↳ "), "\n")), mostColumns)
	}
	require.Equal(t, "short\n"+long+"\n", strings.ReplaceAll(folded, "\n↳ ", ""))
}
