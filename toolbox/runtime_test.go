//go:build unix

package toolbox_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

// runtimeChain is a real policy: what it denies is enforced once more on what is really executed.
func runtimeChain(t *testing.T) *permission.Chain {
	t.Helper()
	chain, err := permission.Compile(permission.Spec{
		Engine: permission.Layer{Deny: []permission.Rule{
			{Tool: permission.Many("shell", "exec"), Argv: permission.Many("rm **", "unlink **")},
			{Tool: permission.One("shell"), Argv: permission.One("find * -delete")},
		}},
		Profile: permission.Layer{Preset: permission.Open},
	})
	require.NoError(t, err)
	return chain
}

// aviary is a directory with a canary, and with rm in all its disguises.
func aviary(t *testing.T) string {
	t.Helper()
	dir := tree(t, map[string]string{
		"canary": "alive", "names": "canary\n", "sub/": "", "r/": "", "bin/": "",
		"lib.sh": "rm -rf canary\n", "script": "#!/bin/sh\nrm -rf canary\n", "multi": "#!/bin/sh\n\"$@\"\n",
		"she": "#!/bin/rm -f\n", "she2": "#!/usr/bin/env -S rm -f\n",
	})
	for _, script := range []string{"script", "multi", "she", "she2"} {
		require.NoError(t, os.Chmod(filepath.Join(dir, script), 0o755))
	}
	program, err := os.ReadFile("/bin/rm")
	require.NoError(t, err)
	for _, name := range []string{"rm", "bin/rm", "copy"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), program, 0o755))
	}
	require.NoError(t, os.Link(filepath.Join(dir, "copy"), filepath.Join(dir, "hard")))
	for name, to := range map[string]string{"link": "/bin/rm", "chain": "link", "root": "/"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	return dir
}

// How a call ends that the chain asked about or let through. What is unseen: is a limit of the enforcement, with its reason.
const (
	denied  = "denied"  // the result is DENIED and names the rule
	refused = "refused" // this shell does not support it, and says so before anything runs
	nothing = "nothing" // it runs, and no denied program is in it
	racing  = "racing"  // the job in the background is denied, or is never begun
	unseen  = "unseen: "
)

// attempts are command lines with the verdict of the chain on their text, and how they end if they run all the same.
var attempts = []struct{ command, verdict, end string }{
	{"rm -rf canary", "deny", "denied"},
	{"$(echo rm) -rf canary", "ask", "denied"},
	{"`echo rm` -rf canary", "ask", "denied"},
	{`"$(echo rm)" -rf canary`, "ask", "denied"},
	{"$(printf r)m -rf canary", "ask", "denied"},
	{"x=$(echo rm); $x -rf canary", "ask", "denied"},
	{"$(echo $(echo rm)) -rf canary", "ask", "denied"},
	{"${ echo rm; } -rf canary", "ask", "denied"},
	{"echo $((1+1)); $([ $((2*3)) = 6 ] && echo rm) -rf canary", "ask", "denied"},
	{"a=(rm ls); ${a[$((1-1))]} -rf canary", "ask", "denied"},
	{"a=(x rm); i=1; ${a[i]} -rf canary", "ask", "denied"},
	{`a=(rm -rf canary); "${a[@]}"`, "ask", "denied"},
	{"declare -A m=([k]=rm); ${m[k]} -rf canary", "ask", "denied"},
	{"r=rm; ${r} -rf canary", "ask", "denied"},
	{"n=r; r=rm; ${!n} -rf canary", "ask", "denied"},
	{"${x:-rm} -rf canary", "ask", "denied"},
	{"${x:=rm} -rf canary", "ask", "denied"},
	{"x=1; ${x:+rm} -rf canary", "ask", "denied"},
	{"p=/bin/rm; ${p##*/} -rf canary", "ask", "denied"},
	{"p=xrm; ${p:1} -rf canary", "ask", "denied"},
	{"p=RM; ${p,,} -rf canary", "ask", "denied"},
	{"p=xm; ${p/x/r} -rf canary", "ask", "denied"},
	{"x='r''m'; $x -rf canary", "ask", "denied"},
	{"IFS=:; x=rm:-rf:canary; $x", "ask", "denied"},
	{`set -- rm -rf canary; "$@"`, "ask", "denied"},
	{"set -- rm -rf canary; $*", "ask", "denied"},
	{"r=r m=m; $r$m -rf canary", "ask", "denied"},
	{"declare -n ref=y; y=rm; $ref -rf canary", "ask", "denied"},
	{"printf -v c rm; $c -rf canary", "ask", "nothing"},
	{"read c <<< rm; $c -rf canary", "ask", "denied"},
	{"mapfile -t l <<< rm; ${l[0]} -rf canary", "ask", "denied"},
	{"eval rm -rf canary", "deny", "denied"},
	{"eval 'r''m -rf canary'", "deny", "denied"},
	{"eval eval eval rm -rf canary", "deny", "denied"},
	{`eval "eval \"$(echo rm) -rf canary\""`, "ask", "denied"},
	{`x='rm -rf canary'; eval "$x"`, "ask", "denied"},
	{`eval "$(printf '\162\155') -rf canary"`, "ask", "denied"},
	{`eval $'\x72\x6d -rf canary'`, "deny", "denied"},
	{"builtin eval rm -rf canary", "deny", "denied"},
	{"command eval rm -rf canary", "deny", "denied"},
	{"'eval' rm -rf canary", "deny", "denied"},
	{"e=eval; $e rm -rf canary", "ask", "denied"},
	{`rm() { echo shadow "$@"; }; rm -rf canary`, "deny", "denied"},
	{"rm() { command rm -rf canary; }; rm", "deny", "denied"},
	{"f() { rm -rf canary; }; f", "deny", "denied"},
	{`f() { "$@"; }; f rm -rf canary`, "ask", "denied"},
	{"f() { $1 -rf canary; }; f rm", "ask", "denied"},
	{"f() { g; }; g() { rm -rf canary; }; f", "deny", "denied"},
	{"function f { rm -rf canary; }; f", "deny", "denied"},
	{"ls() { /bin/rm -rf canary; }; ls", "deny", "denied"},
	{"trap 'rm -rf canary' EXIT", "deny", "denied"},
	{"trap 'rm -rf canary' ERR; false", "deny", "denied"},
	{"trap 'rm -rf canary' 0; exit", "deny", "denied"},
	{`t='rm -rf canary'; trap "$t" EXIT`, "ask", "denied"},
	{". ./lib.sh", "allow", "denied"},
	{"source lib.sh", "allow", "denied"},
	{"builtin source lib.sh", "allow", "denied"},
	{"command . ./lib.sh", "allow", "denied"},
	{"source <(echo rm -rf canary)", "ask", "denied"},
	{"source /dev/stdin <<< 'rm -rf canary'", "ask", "nothing"},
	{". /dev/stdin <<E\nrm -rf canary\nE", "ask", "nothing"},
	{"sh <<EOF\nrm -rf canary\nEOF", "ask", "unseen: a shell reads it from its standard input"},
	{"sh <<'EOF'\nrm -rf canary\nEOF", "ask", "unseen: a shell reads it from its standard input"},
	{"bash <<< 'rm -rf canary'", "ask", "unseen: a shell reads it from its standard input"},
	{"cat <<E\n$(rm -rf canary)\nE", "ask", "denied"},
	{"echo rm -rf canary | sh", "allow", "unseen: a shell reads it from its standard input"},
	{"sh < lib.sh", "allow", "unseen: a shell reads it from its standard input"},
	{"sh lib.sh", "allow", "unseen: it stands in a script"},
	{"./script", "allow", "unseen: it stands in a script"},
	{"bash -s <<< 'rm -rf canary'", "ask", "unseen: a shell reads it from its standard input"},
	{"echo rm -rf canary | bash -s", "allow", "unseen: a shell reads it from its standard input"},
	{"cat lib.sh | bash -", "allow", "unseen: a shell reads it from its standard input"},
	{"sh -c 'rm -rf canary'", "deny", "denied"},
	{"bash -c 'rm -rf canary'", "deny", "denied"},
	{"bash -lc 'rm -rf canary'", "deny", "denied"},
	{`bash -c "$(printf 'rm -rf canary')"`, "ask", "denied"},
	{`sh -c "$(printf '%s -rf canary' rm)"`, "ask", "denied"},
	{"sh -c '$0 -rf canary' rm", "ask", "denied"},
	{`sh -c '"$@"' x rm -rf canary`, "ask", "denied"},
	{"sh -c 'x=rm; $x -rf canary'", "ask", "unseen: it is put together inside another shell"},
	{"sh -c 'rm -rf canary $(true)'", "ask", "denied"},
	{"sh -c 'eval rm -rf canary'", "deny", "denied"},
	{`sh -c 'sh -c "rm -rf canary"'`, "deny", "denied"},
	{"sh -c 'echo $(rm -rf canary)'", "ask", "denied"},
	{"sh -c 'rm -rf canary; ((1))'", "deny", "denied"},
	{"sh -c 'rm -rf canary <<E\nE'", "ask", "denied"},
	{"bash -c 'rm -rf canary && [[ a ]]'", "deny", "denied"},
	{"sh -c 'rm() { echo; }; rm -rf canary'", "deny", "denied"},
	{"sh -xec 'rm -rf canary'", "deny", "denied"},
	{"sh --weird -c 'rm -rf canary'", "ask", "denied"},
	{"bash --rcfile x -c 'rm -rf canary'", "deny", "denied"},
	{"bash +O extglob -c 'rm -rf canary'", "deny", "denied"},
	{"bash -c 'rm -rf canary\n)'", "deny", "denied"},
	{`bash -c $'rm -rf canary #\r'`, "ask", "denied"},
	{`bash -c $'rm -rf \u202e canary'`, "ask", "denied"},
	{"sh -c 'rm -rf \u00a0 canary'", "deny", "denied"},
	{"echo canary | xargs rm -rf", "deny", "denied"},
	{"xargs rm -rf < names", "deny", "denied"},
	{"xargs -I{} rm -rf {} < names", "deny", "denied"},
	{"xargs -n1 rm < names", "deny", "denied"},
	{"xargs -a names rm", "deny", "denied"},
	{"echo rm -rf canary | xargs -I{} sh -c '{}'", "ask", "unseen: xargs reads it from its standard input"},
	{"echo rm -rf canary | xargs env", "ask", "unseen: xargs reads it from its standard input"},
	{`echo 'rm -rf canary' | xargs sh -c '"$@"' x`, "ask", "unseen: xargs reads it from its standard input"},
	{"xargs --weird rm < names", "ask", "denied"},
	{"xargs -P2 -n1 -- rm -f < names", "deny", "denied"},
	{`printf 'rm\0-rf\0canary' | xargs -0 env`, "ask", "unseen: xargs reads it from its standard input"},
	{"echo canary | xargs -I % sh -c 'rm %'", "ask", "denied"},
	{"env rm -rf canary", "deny", "denied"},
	{"env A=1 rm -rf canary", "deny", "denied"},
	{"env -i rm -rf canary", "deny", "denied"},
	{"env -i /bin/rm -rf canary", "deny", "denied"},
	{"env - rm -rf canary", "deny", "denied"},
	{"env -u A -- rm -rf canary", "deny", "denied"},
	{"env -S 'rm -rf canary'", "deny", "denied"},
	{"env -S'rm -rf canary'", "deny", "denied"},
	{`env -S 'r\x6d -rf canary'`, "ask", "nothing"},
	{`env -S '"rm" -rf canary'`, "ask", "denied"},
	{"env -vS 'rm -rf canary'", "deny", "denied"},
	{"env --split-string='rm -rf canary'", "deny", "denied"},
	{"env -S 'A=1 rm -rf canary'", "deny", "denied"},
	{"env -S 'rm' -rf canary", "ask", "denied"},
	{"env -S'-i rm' canary", "deny", "denied"},
	{"env --ignore-signal=PIPE rm -rf canary", "deny", "denied"},
	{"env -C sub rm ../canary", "deny", "denied"},
	{"env --chdir=sub rm ../canary", "deny", "denied"},
	{"env X=$(echo 1) rm canary", "ask", "denied"},
	{"env env env rm canary", "deny", "denied"},
	{"nice rm canary", "deny", "denied"},
	{"nice -n 5 rm canary", "deny", "denied"},
	{"nice -5 rm canary", "deny", "denied"},
	{"nohup rm canary", "deny", "denied"},
	{"timeout 5 rm canary", "deny", "denied"},
	{"timeout -s KILL 5 rm canary", "deny", "denied"},
	{"timeout --weird 5 rm canary", "ask", "denied"},
	{"timeout 5 nohup nice env rm canary", "deny", "denied"},
	{"time rm canary", "deny", "denied"},
	{"time -p rm canary", "deny", "denied"},
	{"/usr/bin/time rm canary", "deny", "denied"},
	{"stdbuf -o0 rm canary", "allow", "denied"},
	{"setsid rm canary", "allow", "denied"},
	{"setsid -w rm canary", "allow", "denied"},
	{"ionice -c3 rm canary", "allow", "denied"},
	{"ionice rm canary", "allow", "denied"},
	{"taskset 1 rm canary", "allow", "denied"},
	{"flock names rm canary", "allow", "denied"},
	{"flock names -c 'rm canary'", "allow", "denied"},
	{"chroot / rm canary", "allow", "denied"},
	{"setarch -R rm canary", "allow", "denied"},
	{"dash -c 'rm canary'", "deny", "denied"},
	{"rbash -c 'rm canary'", "deny", "denied"},
	{`awk 'BEGIN{system("rm canary")}'`, "allow", "unseen: another interpreter runs it"},
	{"sed -n '1e rm canary' names", "allow", "unseen: another interpreter runs it"},
	{"find canary -delete", "deny", "denied"},
	{"find . -name canary -delete", "allow", "unseen: no program runs, and this argument list is not denied"},
	{"find . -name canary -exec rm {} ;", "deny", "denied"},
	{`find . -name canary -exec rm {} \;`, "deny", "denied"},
	{"find . -name canary -exec rm {} +", "deny", "denied"},
	{`find . -name canary -execdir rm {} \;`, "deny", "denied"},
	{"find . -name canary -execdir rm {} +", "deny", "denied"},
	{`find . -name canary -ok rm {} \;`, "deny", "denied"},
	{`find . -name rm -exec {} canary \;`, "ask", "denied"},
	{`find . -name canary -exec sh -c 'rm "$0"' {} \;`, "deny", "denied"},
	{`find . -name canary -exec env rm {} \;`, "deny", "denied"},
	{`find . -maxdepth 1 -name canary $(echo -exec) rm {} \;`, "ask", "denied"},
	{"find . -maxdepth 1 -name canary -printf 'rm %p' | sh", "allow", "unseen: a shell reads it from its standard input"},
	{"./multi rm -rf canary", "allow", "unseen: it stands in a script"},
	{"./link -rf canary", "allow", "denied"},
	{"./chain -rf canary", "allow", "denied"},
	{"./copy canary", "allow", "unseen: the same program under another name"},
	{"./hard canary", "allow", "unseen: the same program under another name"},
	{"./rm canary", "deny", "denied"},
	{"cd sub && ../bin/rm ../canary", "deny", "denied"},
	{"bin/rm canary", "deny", "denied"},
	{"PATH=$PWD:$PATH link canary", "allow", "denied"},
	{"PATH=$PWD:$PATH; link canary", "allow", "denied"},
	{"PATH=$PWD:$PATH; copy canary", "allow", "unseen: the same program under another name"},
	{"PATH=bin; rm canary", "deny", "denied"},
	{"PATH=; ./rm canary", "deny", "denied"},
	{"$PWD/rm canary", "ask", "denied"},
	{"root/bin/rm canary", "deny", "denied"},
	{"/../bin/rm canary", "deny", "denied"},
	{"/bin//rm canary", "deny", "denied"},
	{"/bin/./rm canary", "deny", "denied"},
	{"./she canary", "allow", "denied"},
	{"./she2 canary", "allow", "denied"},
	{"PATH=$PWD:$PATH she canary", "allow", "denied"},
	{"/bin/unlink canary", "deny", "denied"},
	{"ln -s /bin/rm fresh; ./fresh canary", "allow", "denied"},
	{"cp /bin/rm fresh; ./fresh canary", "allow", "unseen: the same program under another name"},
	{"ln copy fresh; ./fresh canary", "allow", "unseen: the same program under another name"},
	{"echo x > canary", "allow", "nothing"},
	{"command rm canary", "deny", "denied"},
	{"command -p rm canary", "deny", "denied"},
	{"command -- rm canary", "deny", "denied"},
	{"command -v rm; command rm canary", "deny", "denied"},
	{"builtin rm canary", "deny", "denied"},
	{"exec rm canary", "deny", "denied"},
	{"exec -a x rm canary", "deny", "denied"},
	{"exec -c rm canary", "deny", "denied"},
	{"exec -- rm canary", "deny", "denied"},
	{"(exec rm canary)", "deny", "denied"},
	{"command exec rm canary", "deny", "denied"},
	{"builtin exec rm canary", "deny", "denied"},
	{"builtin command rm canary", "deny", "denied"},
	{"command command rm canary", "deny", "denied"},
	{"builtin builtin builtin command rm canary", "deny", "denied"},
	{"hash -p /bin/rm x; x canary", "ask", "denied"},
	{"enable -n rm; rm canary", "deny", "refused"},
	{"alias x=rm; x canary", "deny", "refused"},
	{"shopt -s expand_aliases; alias x=rm\nx canary", "deny", "refused"},
	{"eval 'shopt -s expand_aliases'; alias x=rm\nx canary", "deny", "refused"},
	{"builtin alias x=rm; x canary", "deny", "denied"},
	{"unalias -a; rm canary", "deny", "refused"},
	{"alias rm=echo; rm canary", "deny", "refused"},
	{"coproc rm canary", "deny", "refused"},
	{"eval 'coproc rm canary'", "deny", "denied"},
	{"rm canary &", "deny", "racing"},
	{"rm canary & wait", "deny", "denied"},
	{"{ rm canary; } &\nwait", "deny", "denied"},
	{"(rm canary &); wait", "deny", "racing"},
	{"for i in 1; do rm canary; done", "deny", "denied"},
	{"for c in rm; do $c canary; done", "ask", "denied"},
	{"for ((i=0;i<1;i++)); do rm canary; done", "deny", "denied"},
	{"while rm canary; do break; done", "deny", "denied"},
	{"until ! rm canary; do break; done", "deny", "denied"},
	{"case x in x) rm canary;; esac", "deny", "denied"},
	{"case rm in r*) c=rm;; esac; $c canary", "ask", "denied"},
	{"if rm canary; then :; fi", "deny", "denied"},
	{"if true; then rm canary; fi", "deny", "denied"},
	{"select x in a; do rm canary; done <<< 1", "deny", "denied"},
	{"(rm canary)", "deny", "denied"},
	{"{ rm canary; }", "deny", "denied"},
	{"( ( ( rm canary ) ) )", "deny", "denied"},
	{"true && rm canary", "deny", "denied"},
	{"false || rm canary", "deny", "denied"},
	{"! rm canary", "deny", "denied"},
	{"true | rm canary", "deny", "denied"},
	{"rm canary | cat", "deny", "denied"},
	{"rm canary |& cat", "deny", "denied"},
	{"cat <(rm canary)", "ask", "denied"},
	{"echo >(rm canary)", "ask", "nothing"},
	{"diff <(rm canary) names", "ask", "denied"},
	{"[[ -n $(rm canary) ]]", "ask", "denied"},
	{"(( $(rm canary; echo 1) ))", "ask", "denied"},
	{"x=$(rm canary)", "ask", "denied"},
	{"a=($(rm canary))", "ask", "denied"},
	{"export X=$(rm canary)", "ask", "denied"},
	{"local x=$(rm canary)", "ask", "nothing"},
	{"echo ${x:-$(rm canary)}", "ask", "denied"},
	{"echo ${a[$(rm canary; echo 0)]}", "ask", "nothing"},
	{"let x=$(rm canary; echo 1)", "ask", "denied"},
	{"declare x=$(rm canary)", "ask", "denied"},
	{"a[$(rm canary; echo 0)]=1", "ask", "denied"},
	{"test -v 'a[$(rm canary)]'", "ask", "denied"},
	{"x='a[$(rm canary)]'; (( x ))", "ask", "nothing"},
	{"x='a[$(rm canary)]'; echo $((x))", "ask", "nothing"},
	{"printf -v 'a[$(rm canary)]' x", "ask", "denied"},
	{"read 'a[$(rm canary)]' <<< x", "ask", "denied"},
	{"[[ -v 'a[$(rm canary)]' ]]", "ask", "nothing"},
	{`x='$(rm canary)'; echo "${x@P}"`, "ask", "nothing"},
	{"PS4='$(rm canary)'; set -x; true", "ask", "nothing"},
	{"PROMPT_COMMAND='rm canary'; true", "allow", "nothing"},
	{"BASH_ENV=./lib.sh bash -c true", "allow", "unseen: it stands in a script"},
	{"echo x > ../x", "allow", "nothing"},
	{"echo x >| canary", "allow", "refused"},
	{"echo x >| ../x", "allow", "refused"},
	{"echo x >& canary", "allow", "refused"},
	{"echo x &> canary", "allow", "nothing"},
	{"cat <> canary", "allow", "refused"},
	{"echo x > /dev/tcp/127.0.0.1/1", "allow", "nothing"},
	{"cat < /dev/tcp/127.0.0.1/1", "allow", "nothing"},
	{"exec 3<>/dev/tcp/127.0.0.1/1", "allow", "refused"},
	{"echo x > root/tmp/zzx", "allow", "nothing"},
	{"cat < /etc/passwd", "allow", "nothing"},
	{"echo x 3> y", "allow", "refused"},
	{"echo x >&3", "allow", "refused"},
	{"exec > ../y; echo x", "allow", "nothing"},
	{"rm \u202e canary", "ask", "denied"},
	{`rm canary $'a\rb'`, "deny", "denied"},
	{`rm canary $'\x00'`, "deny", "denied"},
	{`rm canary $'\xff'`, "deny", "denied"},
	{"rm canary \u200b", "deny", "denied"},
	{"rm\u200b canary", "allow", "nothing"},
	{"r\u043c canary", "allow", "nothing"},
	{"\uff52\uff4d canary", "allow", "nothing"},
	{"rm\u00a0canary", "allow", "nothing"},
	{`rm canary $(printf '\377')`, "ask", "denied"},
	{"r? canary", "ask", "denied"},
	{"r* canary", "ask", "nothing"},
	{"[r]m canary", "ask", "denied"},
	{"./r? canary", "ask", "denied"},
	{"/bin/r[m] canary", "ask", "denied"},
	{"{r,}m canary", "ask", "denied"},
	{"{rm,canary}", "ask", "denied"},
	{"{r,x}m canary", "ask", "denied"},
	{"r{m,} canary", "ask", "denied"},
	{"r''m canary", "deny", "denied"},
	{`r""m canary`, "deny", "denied"},
	{`\rm canary`, "deny", "denied"},
	{`r\m canary`, "deny", "denied"},
	{"'rm' canary", "deny", "denied"},
	{`"rm" canary`, "deny", "denied"},
	{`$'\x72m' canary`, "deny", "denied"},
	{"$'rm' canary", "deny", "denied"},
	{`$'\162\155' canary`, "deny", "denied"},
	{`$"rm" canary`, "deny", "denied"},
	{"r\\\nm canary", "deny", "denied"},
	{"~/../bin/rm canary", "deny", "denied"},
	{"rm${IFS}canary", "ask", "denied"},
	{"rm$IFS canary", "ask", "denied"},
	{"rm$@ canary", "ask", "denied"},
	{"r$@m canary", "ask", "denied"},
	{"r${x}m canary", "ask", "denied"},
	{"r`:`m canary", "ask", "denied"},
	{"doas rm canary", "deny", "denied"},
	{"echo rm canary", "allow", "nothing"},
	{"grep rm canary", "allow", "nothing"},
	{"echo 'rm -rf canary' > s; sh s", "allow", "unseen: it stands in a script"},
	{`printf '#!/bin/rm -f\n' > s; chmod +x s; ./s canary`, "allow", "denied"},
	{`printf '#!/bin/sh\nrm canary\n' > s; chmod +x s; ./s`, "allow", "unseen: it stands in a script"},
	{"kill -0 $$; rm canary", "deny", "denied"},
	{"wait; rm canary", "deny", "denied"},
	{"jobs; rm canary", "deny", "refused"},
	{"'jobs'; rm canary", "deny", "refused"},
	{"ulimit -a; 'ulimit' -n 1; rm canary", "deny", "refused"},
	{"pushd sub; rm ../canary", "deny", "denied"},
	{"return 2>/dev/null; rm canary", "deny", "denied"},
	{"break; rm canary", "deny", "denied"},
	{"exit; rm canary", "deny", "nothing"},
	{"set -n; rm canary", "deny", "nothing"},
	{"set -e; false; rm canary", "deny", "nothing"},
	{"echo 'rm canary' | while read -r l; do $l; done", "ask", "denied"},
	{"echo canary | while read f; do rm $f; done", "deny", "denied"},
	{"yes rm canary | head -1 | sh", "allow", "unseen: a shell reads it from its standard input"},
	{"cat lib.sh | . /dev/stdin", "allow", "nothing"},
	{"env ./link canary", "allow", "denied"},
	{"timeout 5 ./chain canary", "allow", "denied"},
	{"env ./she canary", "allow", "denied"},
	{"setsid ./link canary", "allow", "denied"},
	{"xargs ./link < names", "allow", "denied"},
	{`find . -name canary -exec ./link {} \;`, "allow", "denied"},
	{"sh -c './link canary'", "allow", "denied"},
	{`printf '#!%s/link\n' $PWD > s; chmod +x s; ./s canary`, "allow", "denied"},
	{"echo canary | xargs -I{} env ./link {}", "allow", "denied"},
	{"sh -c 'cd sub; ../link ../canary'", "allow", "unseen: the other shell looks in another directory"},
	{"ln -s $PWD/link bin2; env bin2 canary; env ./bin2 canary", "allow", "denied"},
	{"sudo -u nobody rm canary", "deny", "denied"},
	{"busybox rm canary", "allow", "denied"},
	{"unshare -r rm canary", "allow", "denied"},
	{"nsenter -t 1 rm canary", "allow", "denied"},
	{"script -qc 'rm canary' /dev/null", "allow", "denied"},
	{"strace -f -o /dev/null rm canary", "allow", "denied"},
	{"su root -c 'cd .; rm canary'", "allow", "denied"},
	{"chroot . /bin/sh -c 'rm canary'", "allow", "denied"},
	{"/lib64/ld-linux-x86-64.so.2 /bin/rm canary", "allow", "denied"},
	{"setsid -w setarch -R env -i /bin/sh -c 'rm canary'", "allow", "denied"},
	{"git -c alias.x='!rm canary' x", "allow", "unseen: the program itself runs it"},
	{"rm canary " + strings.Repeat("x", 60<<10), "deny", "denied"},
	{"rm canary $(head -c 1000000 /dev/zero | tr '\\0' x)", "ask", "denied"},
	{"x=$(head -c 100000 /dev/zero | tr '\\0' x); rm canary $x$x$x$x$x$x$x$x$x$x", "deny", "denied"},
	{"x=$(head -c 80000 /dev/zero | tr '\\0' ' '); sh -c \"$x rm canary\"", "ask", "denied"},
	{"x=$(head -c 500 /dev/zero | tr '\\0' '('); sh -c \"rm canary; $x\"", "ask", "denied"},
}

func TestADeniedProgramDoesNotRun(t *testing.T) {
	chain, shell := runtimeChain(t), all(t)["shell"]
	seen := map[string]bool{}
	for _, a := range attempts {
		require.False(t, seen[a.command], "twice: %s", a.command)
		seen[a.command] = true
		t.Run(short(a.command), func(t *testing.T) {
			t.Parallel()
			dir := aviary(t)
			input, err := json.Marshal(args{"command": a.command})
			require.NoError(t, err)
			d := permission.Explain(chain, shell.Info(), input)
			require.Equal(t, a.verdict, d.Verdict.String(), "%s", d.Reason)
			ends(t, dir, a.end, shell.Invoke(t.Context(), &tool.Context{Dir: dir, Rules: chain.Rules("shell")}, input))
		})
	}
}

func short(command string) string { return command[:min(len(command), 80)] }

// ends compares how a call ended.
func ends(t *testing.T, dir, end string, r tool.Result) {
	t.Helper()
	_, err := os.Stat(filepath.Join(dir, "canary"))
	if strings.HasPrefix(end, unseen) {
		require.ErrorIs(t, err, fs.ErrNotExist, "it is seen by now: write that down")
		require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
		return
	}
	require.NoError(t, err, "the canary is dead: %+v", r)
	switch end {
	case denied:
		require.Equal(t, tool.Denied, r.Code, "%s %+v", r.Value, r.Failure)
		require.Equal(t, tool.ByRule, r.Failure.Reason)
		require.Regexp(t, `^deny-rule \{tool: .*argv: .*\}, at run time$`, r.Failure.By)
		require.Contains(t, r.Failure.Message, "denied: deny-rule {tool: ")
	case refused:
		require.Equal(t, tool.ToolError, r.Code, "%s %+v", r.Value, r.Failure)
		require.Contains(t, r.Failure.Message, "this shell does not support ")
	case nothing:
		require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
	case racing:
		require.Contains(t, []tool.Code{tool.OK, tool.Denied}, r.Code, "%+v", r.Failure)
	default:
		t.Fatalf("no end %q", end)
	}
}

func TestADeniedProgramDoesNotRunWithoutAShell(t *testing.T) {
	chain, exec := runtimeChain(t), all(t)["exec"]
	for _, a := range []struct {
		argv         []string
		verdict, end string
	}{
		{[]string{"rm", "canary"}, "deny", denied},
		{[]string{"/bin/rm", "canary"}, "deny", denied},
		{[]string{"./rm", "canary"}, "deny", denied},
		{[]string{"bin/../bin/rm", "canary"}, "deny", denied},
		{[]string{"unlink", "canary"}, "deny", denied},
		{[]string{"./link", "canary"}, "allow", denied},
		{[]string{"./chain", "canary"}, "allow", denied},
		{[]string{"./she", "canary"}, "allow", denied},
		{[]string{"./she2", "canary"}, "allow", denied},
		{[]string{"env", "./link", "canary"}, "allow", denied},
		{[]string{"env", "rm", "canary"}, "deny", denied},
		{[]string{"env", "-S", "rm canary"}, "deny", denied},
		{[]string{"env", "-S", `"rm" canary`}, "ask", denied},
		{[]string{"timeout", "5", "nice", "rm", "canary"}, "deny", denied},
		{[]string{"sh", "-c", "rm canary"}, "deny", denied},
		{[]string{"sh", "-c", "rm canary $(true)"}, "ask", denied},
		{[]string{"sh", "-c", `"$@"`, "sh", "rm", "canary"}, "ask", denied},
		{[]string{"setsid", "-w", "rm", "canary"}, "allow", denied},
		{[]string{"find", ".", "-name", "canary", "-exec", "rm", "{}", ";"}, "deny", denied},
		{[]string{"xargs", "-a", "names", "rm"}, "deny", denied},
		{[]string{"rm", "canary", strings.Repeat("x", 1<<20)}, "ask", denied},
		{[]string{"rm", "canary", "a\u202eb"}, "ask", denied},
		{[]string{"rm", "canary", "a\rb"}, "ask", denied},
		{[]string{"$(echo rm)", "canary"}, "allow", "missing"},
		{[]string{"r?", "canary"}, "allow", "missing"},
		{[]string{`r\m`, "canary"}, "allow", "missing"},
		{[]string{"r\u043c", "canary"}, "allow", "missing"},
		{[]string{"echo", "rm", "canary"}, "allow", nothing},
		{[]string{"./copy", "canary"}, "allow", unseen + "the same program under another name"},
		{[]string{"sh", "script"}, "allow", unseen + "it stands in a script"},
	} {
		t.Run(short(strings.Join(a.argv, " ")), func(t *testing.T) {
			t.Parallel()
			dir := aviary(t)
			input, err := json.Marshal(args{"argv": a.argv})
			require.NoError(t, err)
			d := permission.Explain(chain, exec.Info(), input)
			require.Equal(t, a.verdict, d.Verdict.String(), "%s", d.Reason)
			r := exec.Invoke(t.Context(), &tool.Context{Dir: dir, Rules: chain.Rules("exec")}, input)
			if a.end == "missing" {
				require.FileExists(t, filepath.Join(dir, "canary"))
				require.Equal(t, tool.ToolError, r.Code)
				require.Contains(t, r.Failure.Message, "no such program")
				return
			}
			ends(t, dir, a.end, r)
		})
	}
}

// Redirections are held against the working directory whoever allowed them: the file outside stays as it is.
func TestRedirectionsThatAPersonAllowed(t *testing.T) {
	chain, shell := runtimeChain(t), all(t)["shell"]
	outside := tree(t, map[string]string{"file": "alive"})
	up := "../" + filepath.Base(outside)
	for _, command := range []string{
		"echo x > " + outside + "/file", "echo x > " + up + "/file", "echo x >> " + up + "/file", "echo x &> " + up + "/file",
		"echo x &>> " + up + "/file", "> " + up + "/file", ": > out/file", "echo x > $(echo " + up + ")/file", "eval 'echo x > " + up + "/file'",
		"f() { echo x; } > " + up + "/file; f", "exec > " + up + "/file; echo x", "for i in 1; do echo x; done > " + up + "/file",
		"{ echo x; } 2> " + up + "/file", "if true; then echo x; fi > " + up + "/file", "cd " + outside + "; echo x > file",
		"ln -s " + outside + " fresh; echo x > fresh/file", "ln -s " + outside + "/file fresh2; echo x > fresh2", "echo x | cat > " + up + "/file",
		"echo x > " + up + "/file &\nwait", "trap 'echo x > " + up + "/file' EXIT", "cat <<< x > " + up + "/file", "(echo x) > " + up + "/file",
		"printf x 1> " + up + "/file", "echo x > /proc/self/cwd/../" + filepath.Base(outside) + "/file", "echo x > sub/../" + up + "/file",
		"read x < " + up + "/file; echo got $x", "cat < out/file",
	} {
		dir := aviary(t)
		require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
		input, err := json.Marshal(args{"command": command})
		require.NoError(t, err)
		r := shell.Invoke(t.Context(), &tool.Context{Dir: dir, Rules: chain.Rules("shell")}, input)
		require.Equal(t, tool.OK, r.Code, "%s: %+v", command, r.Failure)
		require.Equal(t, "alive", content(t, outside, "file"), command)
		require.NotContains(t, string(r.Value), "alive", command)
		require.Regexp(t, "outside the working directory|escapes|leaves the working directory", string(r.Value), command)
	}
	for _, command := range []string{"echo x >| canary", "echo x >| ../x", "echo x >& canary", "cat <> canary", "exec 3> x", "echo x >&3", "exec 5<&0"} {
		require.True(t, fails(t, shell, aviary(t), args{"command": command}, "this shell does not support"), command)
	}
}

// The real shell is not looked into: the verdict on the text is all there is, and the tool's words say so.
func TestTheRealShellEnforcesNothing(t *testing.T) {
	chain := runtimeChain(t)
	for engine, shell := range engines(t) {
		dir := aviary(t)
		input, err := json.Marshal(args{"command": "$(echo rm) -rf canary"})
		require.NoError(t, err)
		require.Equal(t, permission.Ask, permission.Explain(chain, shell.Info(), input).Verdict)
		r := shell.Invoke(t.Context(), &tool.Context{Dir: dir, Rules: chain.Rules("shell")}, input)
		if engine == "interp" {
			ends(t, dir, denied, r)
			continue
		}
		ends(t, dir, unseen+"the real shell", r)
	}
}
