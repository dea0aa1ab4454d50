package argv

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The referee compares what we say of a command with what bash and dash really execute. Their PATH holds only a
// program that writes down its own argument list, under the names that the generated commands use.

// programs are names that no shell has built in. f and rm fail, the others succeed.
var programs = []string{"a", "b", "f", "rm", "npm", "git", "sudo", "env", "timeout", "nohup", "nice", "time", "xargs", "find", "sh"}

const printerScript = `#!%s
out=$OUT/$$
set -- "${0##*/}" "$@"
printf '%%s\0' "$@" >"$out"
case $1 in f|rm) exit 1;; esac
`

// referee runs commands in one shell.
type referee struct {
	shell, bin, work string
	// patience is how long a command may run, if not two seconds.
	patience time.Duration
}

// newReferee prepares a referee. The programs in real are the true ones of this machine.
func newReferee(t testing.TB, shell string, real ...string) referee {
	t.Helper()
	r := referee{shell: needed(t, shell), bin: t.TempDir(), work: t.TempDir()}
	script := fmt.Sprintf(printerScript, needed(t, "dash"))
	for _, name := range programs {
		file := filepath.Join(r.bin, name)
		if slices.Contains(real, name) {
			require.NoError(t, os.Symlink(needed(t, name), file))
		} else {
			require.NoError(t, os.WriteFile(file, []byte(script), 0o755))
		}
	}
	return r
}

func needed(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	require.NoError(t, err, "the referee needs %s: install it, this test is never skipped", program)
	return path
}

// run returns the argument lists that command executes.
func (r referee) run(t testing.TB, command string) [][]string {
	t.Helper()
	out, err := os.MkdirTemp(r.work, "out")
	require.NoError(t, err)
	defer os.RemoveAll(out)
	dir, err := os.MkdirTemp(r.work, "cwd")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.go"), nil, 0o600))

	// The deadline only ends loops that never end by themselves; nothing is concluded from it. Where something is concluded
	// from what has not run, patience is long.
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(r.patience, 2*time.Second))
	defer cancel()
	cmd := exec.CommandContext(ctx, r.shell, "-c", command)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + r.bin, "OUT=" + out, "HOME=" + dir, "X=rm x", "Y=b", "E=", "XY=rm", "Z=Y", "P=$(rm x)", "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	_, _ = cmd.Output() // also waits for background commands, which hold the pipe open

	files, err := os.ReadDir(out)
	require.NoError(t, err)
	var ran [][]string
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(out, f.Name()))
		require.NoError(t, err)
		if len(data) > 0 {
			ran = append(ran, strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"))
		}
	}
	return ran
}

// exact is the pattern of one argument list.
func exact(args []string) Pattern {
	p := Pattern{text: quoteAll(args)}
	for _, a := range args {
		p.tokens = append(p.tokens, token{text: a})
	}
	return p
}

// everything allows whatever may be allowed at all.
func everything(t testing.TB) Table {
	return compileAll(t, []string{"**", "! **", "time **", "! time **", "time -p **", "A=1 **", "A= **", "A=$X **", "A=1 A=1 **", "A=1", "A=$X", "A="})
}

func rounds(short int) int {
	if os.Getenv("ASSENT_LONG") == "1" {
		return short * 50
	}
	return short
}

// seed is fixed, so that a run can be repeated; ASSENT_SEED sets another.
func seed(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv("ASSENT_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}

// TestReferee: an allowed command executes nothing but its segments, and whatever a command executes, a deny or ask
// pattern that names it does not let the command pass.
func TestReferee(t *testing.T) {
	allow := everything(t)
	for _, shell := range []string{"bash", "dash"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			r := newReferee(t, shell)
			rng := rand.New(rand.NewPCG(seed(t), 2))
			allowed, executed, reached := 0, 0, map[string]int{}
			for i := range rounds(1200) {
				command := generateGrammar(rng, reached)
				if i%3 == 0 {
					command = generate(rng)
				}
				c := Lex(command)
				verdict := c.Match(Tables{Allow: allow})
				ran := r.run(t, command)
				if verdict.Outcome == Allow {
					allowed++
				}
				for _, args := range ran {
					executed++
					requireSeen(t, c, args, shell+" -c "+strconv.Quote(command))
					if verdict.Outcome == Allow {
						require.True(t, isSegment(c, exact(args)), "%s -c %q is allowed and executes %q\n%+v", shell, command, args, verdict)
					}
				}
			}
			t.Logf("%d commands allowed, %d argument lists executed", allowed, executed)
			require.Greater(t, allowed, rounds(120))
			require.Greater(t, executed, rounds(800))
			requireReached(t, reached, rounds(5))
		})
	}
}

// requireSeen fails if a chain that denies or asks for args, which command executes, has nothing against c.
func requireSeen(t *testing.T, c Command, args []string, command string) {
	t.Helper()
	program := exact(args[:1])
	program.rest = true
	for _, p := range []Pattern{exact(args), program} {
		got := c.Chain(NewTable(p), Table{})
		require.LessOrEqual(t, got.Outcome, Ask, "%s executes %q, which a deny pattern passes over\n%+v", command, args, got)
		got = c.Chain(Table{}, NewTable(p))
		require.Equal(t, Ask, got.Outcome, "%s executes %q, which an ask pattern passes over\n%+v", command, args, got)
	}
}

// TestRefereeBehindWrappers: what the wrappers of this machine execute is not passed over by a deny pattern.
func TestRefereeBehindWrappers(t *testing.T) {
	for _, shell := range []string{"bash", "dash"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			r := newReferee(t, shell, "env", "timeout", "nohup", "nice", "xargs", "find", "sh")
			rng := rand.New(rand.NewPCG(seed(t), 8))
			executed := 0
			for range rounds(500) {
				command := generateWrapped(rng, 3)
				if rng.IntN(3) == 0 {
					command = "printf '%s\\n' x 'y z' q | " + command
				}
				c := Lex(command)
				for _, args := range r.run(t, command) {
					executed++
					requireSeen(t, c, args, shell+" -c "+strconv.Quote(command))
				}
			}
			t.Logf("%d argument lists executed", executed)
			require.NotZero(t, executed)
		})
	}
}

// isSegment reports whether p names a segment of c as it stands, or as a shell may expand it.
func isSegment(c Command, p Pattern) bool {
	for _, s := range c.segments {
		for first := range s.words {
			if first > 0 && !s.words[first-1].spelled {
				break
			}
			v := newView(s.words[first:], false)
			if holds(&p, &v) || mayHold(&p, &v) {
				return true
			}
		}
	}
	return false
}
