//go:build unix

package toolbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
)

// engines returns both engines of the shell tool.
func engines(t *testing.T) map[string]*tool.Def {
	t.Helper()
	sh, err := toolbox.Shell(toolbox.ShellConfig{Engine: toolbox.EngineSh})
	require.NoError(t, err)
	return map[string]*tool.Def{"interp": all(t)["shell"], "sh": sh}
}

func TestShellRunsCommands(t *testing.T) {
	for engine, shell := range engines(t) {
		t.Run(engine, func(t *testing.T) {
			dir := tree(t, map[string]string{"in": "b\na\n", "script.sh": "#!/bin/sh\nexit 7\n"})
			require.NoError(t, os.Chmod(filepath.Join(dir, "script.sh"), 0o755))
			for command, want := range map[string]toolbox.Output{
				"echo out; echo err >&2":                {Stdout: "out\n", Stderr: "err\n"},
				"exit 3":                                {ExitCode: 3},
				"false":                                 {ExitCode: 1},
				"sort < in | tr a-z A-Z > out; cat out": {Stdout: "A\nB\n"},
				"./script.sh || echo $?":                {Stdout: "7\n"},
				"f() { echo \"f:$1\"; }; f x; (cd /; f y)":                   {Stdout: "f:x\nf:y\n"},
				"echo $(echo $(echo deep))":                                  {Stdout: "deep\n"},
				"cat; read x; echo \"[$x]\"":                                 {Stdout: "[]\n"},
				"cat <<E\nhere $((1+2))\nE":                                  {Stdout: "here 3\n"},
				"A=1 sh -c 'echo $A'; echo \"[$A]\"":                         {Stdout: "1\n[]\n"},
				"echo x > /dev/null":                                         {},
				"echo x > /dev/stderr":                                       {Stderr: "x\n"},
				"sleep 0.05 & wait; echo waited":                             {Stdout: "waited\n"},
				"test -d \"$TMPDIR\" && echo t > $TMPDIR/f && cat $TMPDIR/f": {Stdout: "t\n"},
				"pwd | grep -c /":                                            {Stdout: "1\n"},
				"sh -c 'test \"$PWD\" = \"$(pwd)\"'":                         {},
			} {
				require.Equal(t, want, ok[toolbox.Output](t, shell, dir, args{"command": command}), command)
			}
		})
	}
}

func TestInterpretedLanguage(t *testing.T) {
	dir := tree(t, map[string]string{"a": "1\n", "b": "1\n", "lib.sh": "v=sourced; g() { echo g; }\n"})
	for command, want := range map[string]toolbox.Output{
		"diff <(sort a) <(sort b) && echo same":                 {Stdout: "same\n"},
		"echo hi | tee >(cat > copy) > /dev/null; true":         {},
		". ./lib.sh; echo $v; g":                                {Stdout: "sourced\ng\n"},
		"source lib.sh && echo $v":                              {Stdout: "sourced\n"},
		"source <(echo 'v=piped; echo $1') arg; echo $v":        {Stdout: "arg\npiped\n"},
		"x=aXbX; echo ${x//X/-} ${x//X} ${x//X/'yy'} ${x/X/$x}": {Stdout: "a-b- ab ayybyy aaXbXbX\n"},
		"mkfifo p; . $PWD/p; echo $?":                           {Stdout: "1\n", Stderr: "source: open " + dir + "/p: not a regular file\n"},
		"set -euo pipefail; false | true; echo no":              {ExitCode: 1},
		"trap 'echo bye' EXIT; echo hi":                         {Stdout: "hi\nbye\n"},
		"a=(1 2 3); echo ${#a[@]} ${a[1]}":                      {Stdout: "3 2\n"},
		"[[ abc =~ b ]] && echo m":                              {Stdout: "m\n"},
		"echo <(true) > /dev/null":                              {},
		"exec > o; echo x":                                      {},
		"sh -c 'kill -9 $$'":                                    {ExitCode: 137},
		"nosuchprogram":                                         {ExitCode: 127, Stderr: "nosuchprogram: command not found\n"},
		"./a":                                                   {ExitCode: 127, Stderr: "./a: command not found\n"},
		"kill $!; sleep 60 & kill $!; echo $?":                  {Stdout: "1\n", Stderr: "kill: g1: a job that was started with & has no process id in this shell; it ends with the call\n"},
	} {
		got := ok[toolbox.Output](t, all(t)["shell"], dir, args{"command": command})
		if strings.HasPrefix(command, "kill") { // the first one prints the usage of the program
			require.Contains(t, got.Stderr, want.Stderr)
			got.Stderr = want.Stderr
		}
		require.Equal(t, want, got, command)
	}
	require.Equal(t, "hi\n", content(t, dir, "copy"))
	require.Equal(t, "x\n", content(t, dir, "o"))
}

func TestProgramsOfUnknownFormatAreAnExitCode(t *testing.T) {
	dir := tree(t, map[string]string{"noshebang": "echo x\n"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "noshebang"), 0o755))
	got := ok[toolbox.Output](t, all(t)["shell"], dir, args{"command": "./noshebang; echo $?"})
	require.Equal(t, "126\n", got.Stdout)
	require.Contains(t, got.Stderr, "needs a #! line")
	fails(t, all(t)["exec"], dir, args{"argv": []string{"./noshebang"}}, "needs a #! line")
}

func TestUnsupportedConstructsAreNamedBeforeAnythingRuns(t *testing.T) {
	dir := t.TempDir()
	for command, want := range map[string]string{
		"coproc cat":                    "does not support coproc",
		"exec 3<x":                      "file descriptor 3",
		"cat <&3":                       "the redirection <&",
		"cat <> x":                      "the redirection <>",
		"sleep 1 & fg":                  "fg (job control)",
		"jobs":                          "jobs (job control)",
		"if true; then ulimit -n 1; fi": "ulimit",
		"alias x=rm":                    "alias (aliases)",
		"x=1; echo ${x//1/$x}":          "no literal of at most 64 bytes",
		"echo ${x//1/$(id)}":            "no literal of at most 64 bytes",
		"echo ${x//1/" + strings.Repeat("1", 65) + "}": "no literal of at most 64 bytes",
		"echo 'x":                   "does not parse",
		"echo $(":                   "does not parse",
		"a\x00b":                    "NUL",
		strings.Repeat("(", 401):    "brackets",
		strings.Repeat("x", 65<<10): "at most 65536 are read",
	} {
		require.True(t, fails(t, all(t)["shell"], dir, args{"command": "touch canary; " + command}, want), command)
	}
	require.NoFileExists(t, filepath.Join(dir, "canary"))
}

func TestOnlyTheGivenEnvironmentIsPassedOn(t *testing.T) {
	t.Setenv("SECRET_API_KEY", "s3cret")
	t.Setenv("ENV", "/nonexistent-rc")
	t.Setenv("BASH_ENV", "/nonexistent-rc")
	cfg := toolbox.Config{
		Shell: toolbox.ShellConfig{Env: map[string]string{"GIVEN": "1"}},
		Exec:  toolbox.ExecConfig{Env: map[string]string{"GIVEN": "1", "LANG": "C"}},
	}
	shell, err := toolbox.Shell(cfg.Shell)
	require.NoError(t, err)
	exec, err := toolbox.Exec(cfg.Exec)
	require.NoError(t, err)
	names := func(out string) []string {
		var names []string
		for line := range strings.Lines(out) {
			name, _, _ := strings.Cut(line, "=")
			names = append(names, name)
		}
		return names
	}
	want := []string{"ASSENT_CALL", "GIVEN", "HOME", "LANG", "PATH", "PWD", "TMPDIR"}
	got := ok[toolbox.Output](t, shell, t.TempDir(), args{"command": "env"})
	require.ElementsMatch(t, want, names(got.Stdout))
	got = ok[toolbox.Output](t, exec, t.TempDir(), args{"argv": []string{"env"}})
	require.ElementsMatch(t, want, names(got.Stdout))
	require.Contains(t, got.Stdout, "LANG=C\n")
	require.Empty(t, ok[toolbox.Output](t, shell, t.TempDir(), args{"command": "printf %s $SECRET_API_KEY"}).Stdout)
}

func TestRedirectionsStayInTheDirectory(t *testing.T) {
	outside := tree(t, map[string]string{"secret": "s3cret\n"})
	dir := tree(t, map[string]string{"sub/": "", ".git/config": "keep"})
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(".git", filepath.Join(dir, "disguise")))
	up := "../" + filepath.Base(outside)
	shell := all(t)["shell"]
	for _, command := range []string{
		"echo x > " + outside + "/new", "echo x >> " + up + "/new", "echo x > link/new", "echo x &> " + outside + "/new",
		"cd " + outside + " && echo x > new", "d=" + outside + "; echo x > $d/new", "eval 'echo x > " + up + "/new'",
		"f() { echo x > " + up + "/new; }; f", "( echo x > " + up + "/new )", "x=$(echo x > " + up + "/new)",
		"exec > " + up + "/new", "while true; do echo; break; done > " + up + "/new",
		"cat < " + outside + "/secret", "cat < " + up + "/secret", "cat < link/secret", "echo $(<" + outside + "/secret)",
		"read x < " + outside + "/secret; echo $x", ". " + outside + "/secret", "cat < /etc/hostname",
	} {
		got := ok[toolbox.Output](t, shell, dir, args{"command": command})
		require.NotContains(t, got.Stdout+got.Stderr, "s3cret", command)
		require.Regexp(t, "outside the working directory|escapes|leaves the working directory", got.Stderr, command)
	}
	for _, command := range []string{"echo x > .git/config", "echo x >> .GIT/hooks/pre-commit", "echo x > disguise/config", "cd .git && echo x > config"} {
		require.Contains(t, ok[toolbox.Output](t, shell, dir, args{"command": command}).Stderr, "names .git", command)
	}
	require.NoFileExists(t, filepath.Join(outside, "new"))
	require.Equal(t, "keep", content(t, dir, ".git", "config"))

	got := ok[toolbox.Output](t, shell, dir, args{"command": "echo 1 > sub/f; cd sub; echo 2 >> ../sub/f; cat < $PWD/f; cat < ../.git/config"})
	require.Equal(t, "1\n2\nkeep", got.Stdout)
	got = ok[toolbox.Output](t, shell, dir, args{"command": "mkfifo p; cat < p; echo x > p"})
	require.Contains(t, got.Stderr, "open p: ")
}

// denyRm refuses every command whose program is rm, and remembers what it was asked.
type denyRm struct {
	mu   sync.Mutex
	seen [][]string
}

var errRm = errors.New("rm is not for you")

func (d *denyRm) deny(_ context.Context, argv []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, argv)
	if filepath.Base(argv[0]) == "rm" {
		return errRm
	}
	return nil
}

func TestDenySeesWhatIsReallyExecuted(t *testing.T) {
	for _, command := range []string{
		"rm -rf canary",
		"$(echo rm) -rf canary",
		"r=r; m=m; $r$m -rf canary",
		"eval 'r''m -rf canary'",
		"eval eval \"'rm -rf canary'\"",
		"f() { \"$@\"; }; f rm -rf canary",
		"rm() { command rm -rf canary; }; rm",
		"(rm -rf canary)",
		"{ rm -rf canary; }",
		"echo $(rm -rf canary)",
		"echo `rm -rf canary`",
		"cat <(rm -rf canary)",
		"true | rm -rf canary",
		"rm -rf canary | true",
		"for c in rm; do $c -rf canary; done",
		"if rm -rf canary; then :; fi",
		"case x in x) rm -rf canary;; esac",
		"command rm -rf canary",
		"exec rm -rf canary",
		"builtin eval rm -rf canary",
		"command eval rm -rf canary",
		"trap 'rm -rf canary' EXIT",
		"set -e; trap 'rm -rf canary' ERR; false",
		". ./myscript",
		"builtin source myscript",
		"x=${y:-$(rm -rf canary)}",
		"rm -rf canary | sleep 1000",
		"sleep 1000 | rm -rf canary",
		"[[ -n $(rm -rf canary) ]]",
		"echo $(( $(rm -rf canary; echo 1) ))",
		"cat <<E\n$(rm -rf canary)\nE",
		"export X=$(rm -rf canary)",
		"a=($(rm -rf canary))",
		"rm -rf canary & wait",
		"/bin/rm -rf canary",
		"./link -rf canary",
		"PATH=/bin:/usr/bin; rm -rf canary",
		"false || ! rm -rf canary",
		"time rm -rf canary",
		"while rm -rf canary; do break; done",
		"\\rm -rf canary", "'rm' -rf canary", "r\"\"m -rf canary", "{rm,-rf,canary}",
		"select x in $(rm -rf canary); do :; done",
	} {
		t.Run(command, func(t *testing.T) {
			dir := tree(t, map[string]string{"canary": "alive", "myscript": "rm -rf canary\n"})
			require.NoError(t, os.Symlink("/bin/rm", filepath.Join(dir, "link")))
			var d denyRm
			shell, err := toolbox.Shell(toolbox.ShellConfig{Deny: d.deny})
			require.NoError(t, err)
			denies(t, shell, dir, args{"command": command + "\ntouch after"}, "denied: rm is not for you")
			require.FileExists(t, filepath.Join(dir, "canary"))
			if !strings.HasPrefix(command, "trap") { // which runs at the end anyway
				require.NoFileExists(t, filepath.Join(dir, "after"), "a refusal ends the whole call")
			}
		})
	}
}

func TestDenyHearsEveryArgument(t *testing.T) {
	var d denyRm
	shell, err := toolbox.Shell(toolbox.ShellConfig{Deny: d.deny})
	require.NoError(t, err)
	ok[toolbox.Output](t, shell, t.TempDir(), args{"command": `x="a b"; f() { printf %s "$1"; }; f "$x"; env true; cd .`})
	require.Contains(t, d.seen, []string{"f", "a b"})
	require.Contains(t, d.seen, []string{"printf", "%s", "a b"})
	require.Contains(t, d.seen, []string{"env", "true"})
	require.Contains(t, d.seen, []string{"cd", "."})
}

func TestADeniedBackgroundJobEndsTheCall(t *testing.T) {
	dir := tree(t, map[string]string{"canary": ""})
	var d denyRm
	shell, err := toolbox.Shell(toolbox.ShellConfig{Deny: d.deny})
	require.NoError(t, err)
	denies(t, shell, dir, args{"command": "rm canary & sleep 1000; touch after"}, "denied")
	require.FileExists(t, filepath.Join(dir, "canary"))
	require.NoFileExists(t, filepath.Join(dir, "after"))
}

func TestExec(t *testing.T) {
	dir := tree(t, map[string]string{"a b": "1"})
	exec := all(t)["exec"]
	require.Equal(t, toolbox.Output{Stdout: "1"}, ok[toolbox.Output](t, exec, dir, args{"argv": []string{"cat", "a b"}}))
	require.Equal(t, toolbox.Output{Stdout: "$(x) * ~\n"}, ok[toolbox.Output](t, exec, dir, args{"argv": []string{"echo", "$(x)", "*", "~"}}))
	require.Equal(t, 4, ok[toolbox.Output](t, exec, dir, args{"argv": []string{"sh", "-c", "exit 4"}}).ExitCode)
	fails(t, exec, dir, args{"argv": []string{"nosuchprogram"}}, "no such program")
	require.True(t, fails(t, exec, dir, args{"argv": []string{""}}, "argv names a program"))
	require.True(t, fails(t, exec, dir, args{"argv": []string{"a\x00b"}}, "NUL"))
	require.Equal(t, tool.InvalidArguments, invoke(t, exec, dir, args{"argv": []string{}}).Code)
	require.Equal(t, tool.InvalidArguments, invoke(t, exec, dir, args{"argv": []string{"true"}, "timeoutSeconds": 3601}).Code)
}

func TestExecAsksDeny(t *testing.T) {
	dir := tree(t, map[string]string{"canary": ""})
	require.NoError(t, os.Symlink("/bin/rm", filepath.Join(dir, "link")))
	var d denyRm
	exec, err := toolbox.Exec(toolbox.ExecConfig{Deny: d.deny})
	require.NoError(t, err)
	for _, program := range []string{"rm", "/bin/rm", "./link"} {
		denies(t, exec, dir, args{"argv": []string{program, "canary"}}, "denied: rm is not for you")
	}
	require.FileExists(t, filepath.Join(dir, "canary"))
}
