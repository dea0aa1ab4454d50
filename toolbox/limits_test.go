//go:build unix

package toolbox

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
)

// The interpreter shares the worker's memory and stack, so these command lines would end the worker.
func TestCommandsThatWouldEndTheWorkerEndTheirCall(t *testing.T) {
	for command, want := range map[string]error{
		"f() { f; }; f":                                errDepth,
		"f() { $(f); }; f":                             errDepth,
		"f() { eval f; }; f":                           errDepth,
		"f() { f & f & }; f; sleep 1000":               errJobs,
		"f() { f | f; }; f":                            errJobs,
		"x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done": errMemory,
		"x=$(yes)":                                     errMemory,
	} {
		t.Run(command, func(t *testing.T) {
			before := runtime.NumGoroutine()
			err := interpretIn(t, command, 16<<20) // small, because the interpreter expands slowly under the race detector
			require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 }, 3*time.Minute, 10*time.Millisecond)
			// Whichever bound is met first is fine; what counts is that the call ends and the worker lives.
			require.True(t, err == errDepth || err == errJobs || err == errMemory, "%v, wanted %v", err, want)
		})
	}
}

func TestOversizedProgramsAreNotParsed(t *testing.T) {
	for _, command := range []string{
		`eval "$(head -c 1000 /dev/zero | tr '\0' '(')"`,
		`trap "$(head -c 1000 /dev/zero | tr '\0' '(')" EXIT`,
		`head -c 1000 /dev/zero | tr '\0' '(' > f; . ./f`,
		`mkdir p; head -c 1000 /dev/zero | tr '\0' '(' > p/f; PATH=p:$PATH; builtin . f`,
		`command -- eval "$(head -c 1000 /dev/zero | tr '\0' '(')"`,
		`builtin command -- trap "$(head -c 1000 /dev/zero | tr '\0' '(')" EXIT`,
		`head -c 1000 /dev/zero | tr '\0' '(' > f; command -- . ./f`,
		`source <(head -c 1000 /dev/zero | tr '\0' '(')`,
		`source <(yes)`,
		`eval 'coproc true'`,
		`eval 'coproc true' & wait`,
		`trap 'cat <&3' EXIT`,
		`echo 'cat <> f' > f; . ./f`,
		`x='x=1; echo ${x//1/$x}'; eval "$x"`,
		`a=alias; $a x=true`,
		`'jobs'`,
		`shopt -s expand_aliases`,
		`command -- shopt -s expand_aliases`,
	} {
		require.Error(t, interpretIn(t, command, maxMemory), command)
	}
}

// What the interpreter does by itself, between two commands, ends with the call too.
func TestNothingOutlastsItsTime(t *testing.T) {
	for _, command := range []string{
		`shopt -s globstar; for f in /**/**; do :; done`,
		`source <(sleep 1000)`,
		`x=$(head -c 2000000 /dev/zero | tr '\0' '('); [[ a =~ $x ]]`, // some seconds in one expression
	} {
		cfg, err := newCommandConfig("shell", nil, nil)
		require.NoError(t, err)
		cfg.grace = 50 * time.Millisecond
		out, err := interpretWith(t, cfg, command, 1)
		require.NoError(t, err, command)
		require.True(t, out.TimedOut, command)
	}
}

func interpretIn(t *testing.T, command string, memory uint64) error {
	t.Helper()
	cfg, err := newCommandConfig("shell", nil, nil)
	require.NoError(t, err)
	cfg.memory = memory
	_, err = interpretWith(t, cfg, command, 600)
	return err
}

func interpretWith(t *testing.T, cfg commandConfig, command string, seconds int) (Output, error) {
	t.Helper()
	file, err := readProgram(command)
	require.NoError(t, err)
	return runCommand(t.Context(), cfg, &tool.Context{Dir: t.TempDir()}, seconds, func(ctx context.Context, r *commandRun) (int, error) {
		return r.interpret(ctx, shellProgram{text: command, file: file})
	})
}

func TestCaptureKeepsExactlyHeadAndTail(t *testing.T) {
	for name, c := range map[string]struct {
		writes []string
		want   stream
	}{
		"short":          {[]string{"abc", "def"}, stream{text: "abcdef"}},
		"full":           {[]string{"0123456789"}, stream{text: "0123456789"}},
		"one too many":   {[]string{"0123456789a"}, stream{text: "01234\n[... 1 bytes dropped ...]\n6789a", dropped: 1}},
		"byte by byte":   {strings.Split("abcdefghijklmnopq", ""), stream{text: "abcde\n[... 7 bytes dropped ...]\nmnopq", dropped: 7}},
		"one huge write": {[]string{strings.Repeat("x", 1000) + "tail!"}, stream{text: "xxxxx\n[... 995 bytes dropped ...]\ntail!", dropped: 995}},
		"cut characters": {[]string{"ääääääää"}, stream{text: "ää\n[... 8 bytes dropped ...]\nää", dropped: 8}},
		"no UTF-8":       {[]string{"\xff\xfea"}, stream{text: "\uFFFDa", replaced: true}},
	} {
		t.Run(name, func(t *testing.T) {
			capture, err := newCapture(10)
			require.NoError(t, err)
			for _, w := range c.writes {
				_, err := capture.in.WriteString(w)
				require.NoError(t, err)
			}
			require.Equal(t, c.want, capture.finish())
		})
	}
}
