package argv_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission/argv"
)

// executed is the outcome of a deny table for an argument list that is about to run.
func executed(t *testing.T, args []string, patterns ...string) argv.Outcome {
	t.Helper()
	var compiled []argv.Pattern
	for _, text := range patterns {
		p, err := argv.Compile(text)
		require.NoError(t, err)
		compiled = append(compiled, p)
	}
	return argv.LexExecuted(args).Chain(argv.NewTable(compiled...), argv.Table{}).Outcome
}

func TestExecutedIsSeenWhereItCannotBeRead(t *testing.T) {
	deep := strings.Repeat("(", 500) + ";rm x"
	for _, args := range [][]string{
		{"timeout", "--weird", "5", "rm", "x"},
		{"timeout", "--weird", "5", "/bin/rm", "x"},
		{"env", "-S", `"rm" -rf x`},
		{"env", "-S", "rm", "-rf", "x"},
		{"env", "-S", `A=1 'rm' x`},
		{"xargs", "--weird", "rm"},
		{"sh", "-c", "rm x $(true)"},
		{"sh", "-c", "echo $(rm x)"},
		{"sh", "-c", "echo `rm x`"},
		{"sh", "-c", "cat <<E\n$(rm x)\nE"},
		{"sh", "-c", "rm x <<E\nE"},
		{"sh", "-c", "rm x # \r"},
		{"sh", "-c", "rm \u202e x"},
		{"sh", "-c", "rm x\x01"},
		{"sh", "-c", "$0 x", "rm"},
		{"sh", "-c", `"$@"`, "sh", "rm", "x"},
		{"sh", "-c", "rm x; case $(a) in"},
		{"sh", "-c", "if true; then rm x; fi; echo $(a"},
		{"sh", "-c", "sh -c 'rm x $(a)'; echo $(b)"},
		{"sh", "-c", "f() { rm x; }; $(f)"},
		{"sh", "-c", deep},
		{"sh", "-c", strings.Repeat("true;", 20_000) + "A=1 'rm' x"},
		{"sh", "--weird", "-c", "rm x"},
		{"find", ".", "-exec", "sh", "-c", "rm $1 $(x)", "{}", ";"},
		{"setsid", "-w", "rm", "x"},
		{"/usr/bin/stdbuf", "-o0", "rm", "x"},
		{"ionice", "-c3", "env", "A=1", "rm", "x"},
		{"chroot", "/", "sh", "-c", "rm x"},
		{"flock", "f", "-c", "rm x"},
		{"script", "-qc", "rm x", "/dev/null"},
		{"script", "-qcrm x", "/dev/null"},
		{"script", "--command=rm x"},
		{"su", "root", "--command=cd /; rm x"},
		{"start-stop-daemon", "--start", "--exec=/bin/rm", "--", "x"},
		{"tini", "--", "rm", "x"},
		{"gosu", "nobody", "rm", "x"},
		{"tmux", "new", "rm x"},
		{"fish", "-c", "rm x"},
		{"busybox", "rm", "x"},
		{"/lib64/ld-linux-x86-64.so.2", "/bin/rm", "x"},
		{"su", "-c", "cd /; rm x"},
	} {
		assert.Equal(t, argv.Deny, executed(t, args, "rm **"), "%.80q", args)
	}
	for _, args := range [][]string{
		{"echo", "rm", "x"},
		{"echo", "rm x; rm y"},
		{"git", "commit", "-m", "rm x"},
		{"sh", "-c", "echo rm x"},
		{"sh", "-c", "echo 'rm x' $(date)"},
		{"sh", "-c", "echo rm $(date)"},
		{"setsid", "-w", "echo", "x"},
		{"timeout", "5", "echo", "rm"},
		{"find", ".", "-name", "rm"},
		{"sh", "-c", "$x y"},
	} {
		assert.NotEqual(t, argv.Deny, executed(t, args, "rm **"), "%q", args)
	}
	assert.Equal(t, argv.Deny, executed(t, []string{"setsid", "git", "push", "-f"}, "git push -f"))
	assert.NotEqual(t, argv.Deny, executed(t, []string{"setsid", "git", "push"}, "git push -f"))
	assert.Equal(t, argv.Ask, executed(t, nil, "rm **"))
}

// Many arguments, and texts in texts, cost no more than their length.
func TestExecutedIsBounded(t *testing.T) {
	many := append([]string{"setsid"}, strings.Fields(strings.Repeat("env ", 50_000))...)
	assert.NotEqual(t, argv.Deny, executed(t, many, "rm **"))
	assert.Equal(t, argv.Deny, executed(t, append(many, "rm"), "rm **"))
	text := "rm x"
	for range 10 {
		text = "sh -c '" + strings.ReplaceAll(text, "'", `'\''`) + "' $(a)"
		if len(text) > 32<<10 {
			break
		}
	}
	executed(t, []string{"sh", "-c", text}, "rm **")
	executed(t, []string{"setsid", strings.Repeat("sh -c 'a b' $(c) ", 4000)}, "rm **")
}

func TestPrograms(t *testing.T) {
	assert.Equal(t, [][]string{{"env", "A=1", "nice", "./x", "y"}, {"nice", "./x", "y"}, {"./x", "y"}},
		argv.Programs([]string{"env", "A=1", "nice", "./x", "y"}))
	assert.Equal(t, [][]string{{"sh", "-c", "./x; ./y z"}, {"./x"}, {"./y", "z"}}, argv.Programs([]string{"sh", "-c", "./x; ./y z"}))
	assert.Equal(t, [][]string{{"echo", "a b"}}, argv.Programs([]string{"echo", "a b"}))
	assert.Empty(t, argv.Programs(nil))
}
