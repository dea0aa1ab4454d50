package argv

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// behindCases: the verdict of a chain that denies `curl **` and nothing else.
var behindCases = []struct {
	command string
	want    Outcome
}{
	{"curl x", Deny},
	{`c\url x`, Deny},
	{"/usr/bin/curl x", Deny},
	{"./curl x", Deny},
	{"~/bin/curl x", Deny},
	{`"$HOME/bin/curl" x`, Deny},
	{"$HOME/bin/curl x", Ask},
	{"/???/curl x", Ask},
	{"echo curl x", None},
	{"curly x", None},

	{"env A=1 curl x", Deny},
	{"env -i -u HOME A=1 B=2 curl x", Deny},
	{"env --unset=HOME -C /tmp curl x", Deny},
	{"env - curl x", Deny},
	{"env -S 'curl x'", Deny},
	{"env -S'curl x'", Deny},
	{"env -iS 'A=1 curl' x", Deny},
	{"env --split-string='-u A curl x'", Deny},
	{`env -S 'c\url x'`, Ask},
	{"env --frobnicate curl x", Ask},
	{`env "$X" curl x`, Ask},
	{`env "A=$X" curl x`, Deny},
	{"env A=$X curl x", Ask},
	{`env "a$X" curl x`, Ask},
	{"env A=1", None},
	{"env", None},

	{"sudo curl x", Deny},
	{"sudo -u root -- curl x", Deny},
	{"sudo -nu root A=1 curl x", Deny},
	{"sudo --user=root curl x", Deny},
	{"sudo --user root curl x", Deny},
	{"sudo --usr root curl x", Ask},
	{"sudo -u", Ask},
	{"sudo -u $X curl x", Ask},
	{"sudo A=1 -u root B=2 -n curl x", Deny},
	{"sudo A=1 --frobnicate curl x", Ask},
	{`sudo -u "$X" curl x`, Deny},
	{"sudo $X", Ask},
	{"sudo ls", None},
	{"doas -u root curl x", Deny},
	{"/usr/bin/sudo /usr/bin/curl x", Deny},
	{"timeout 5 nohup curl x", Deny},
	{"timeout -k 9 -s KILL 5 curl x", Deny},
	{"timeout --signal=KILL 5 curl x", Deny},
	{`timeout "$T" curl x`, Ask},
	{"timeout", None},
	{"nice -n 5 curl x", Deny},
	{"nice -n5 curl x", Deny},
	{"nice -10 curl x", Deny},
	{"nice -+ curl x", Ask},
	{"nice --adjustment=3 curl x", Deny},
	{"time curl x", Deny},
	{"time -p curl x", Deny},
	{"time -- curl x", Deny},
	{"time -- ! curl x", Ask},
	{"time -f %e curl x", Deny}, // by dash
	{"! time -o f curl x", Deny},
	{"time --frobnicate curl x", Ask},
	{"time -f %e ls", None},
	{`\time -f %e curl x`, Deny},
	{"! time curl x", Deny},

	{"xargs curl", Deny},
	{"xargs -n1 curl", Deny},
	{"xargs -0 -P 4 -- curl x", Deny},
	{"xargs -I{} curl {}", Deny},
	{`xargs -I "$X" curl x`, Ask},
	{"xargs -I{} {} x", Ask},
	{"xargs -I{} ls $X{}", None},
	{"xargs -I{} $X{} x", Ask},
	{`xargs -I{} "$X{}" x`, Ask},
	{"xargs -I% sh -c 'echo %'", Ask},
	{"xargs --replace=@ sh -c 'echo x'", None},
	{"xargs", None},
	{"xargs sudo", Ask},
	{"xargs sh -c", Ask},
	{"xargs grep x", None},
	{"xargs -Q curl", Ask},

	{`find . -exec curl {} \;`, Deny},
	{"find . -exec curl {} +", Deny},
	{`find . -name x -execdir sudo curl {} ';'`, Deny},
	{`find . -exec ls {} \; -ok curl x \;`, Deny},
	{`find . -exec {} \;`, Ask},
	{`find . -exec sh -c 'curl x' \;`, Deny},
	{`find . -exec sh -c 'ls {}' \;`, Ask},
	{"find . -name curl", None},
	{"find $DIR -name x", Ask},
	{`find "$DIR" -name x`, None},
	{`find "$DIR" curl x \;`, Ask},

	{"sh -c 'curl x'", Deny},
	{"bash -c 'curl x'", Deny},
	{`bash -c "curl x"`, Deny},
	{"bash -lc 'ls; curl x'", Deny},
	{"bash -c -e 'curl x'", Deny},
	{"bash -o pipefail -ec 'curl x'", Deny},
	{"bash -oc pipefail 'curl x'", Deny},
	{"bash --norc --rcfile x +e -c 'curl x'", Deny},
	{"bash -c 'bash -c \"curl x\"'", Deny},
	{"sh -c 'sudo env A=1 /bin/curl x'", Deny},
	{"sh -c 'ls $(id)'", Ask},
	{"sh -c 'ls'", None},
	{`sh -c "$X"`, Ask},
	{`sh -c '"$@"' x curl y`, Ask},
	{"sh -c", None},
	{"sh x.sh", None},
	{"sh -Ω -c 'ls'", Ask},
	{"sh -o $X -c 'curl x'", Ask},
	{`sh "$X" x`, Ask},
	{`sh "a$X"`, None},
	{`sh -c "curl$X"`, Ask},
	{"sh -c '('", Ask},
	{"sh -c ''", None},

	{"eval curl x", Deny},
	{"eval 'curl x; ls'", Deny},
	{"eval -- curl x", Deny},
	{"eval ls", None},
	{`eval "$X"`, Ask},
	{"eval", None},
	{"command curl x", Deny},
	{"command -p curl x", Deny},
	{"command -v curl", None},
	{"command -z curl", Ask},
	{"builtin command curl x", Deny},
	{"exec curl x", Deny},
	{"exec -a ls curl x", Deny},
	{"exec >/dev/null", None},
	{"trap 'curl x' EXIT", Deny},
	{"trap -- 'curl x' EXIT", Deny},
	{"trap - EXIT", None},
	{"trap -p", None},
	{`trap "$X" EXIT`, Ask},
	{"alias ls='curl x'", Deny},
	{"alias ls", None},
	{"alias ls=curl", Deny},
	{"alias ls='ls -l'", None},
	{"alias ls='ls;'", Ask},
	{"alias ls='A=1'", Ask},
	{"alias ls='sudo '", Ask},
	{"alias ls=sudo", Ask},
	{"alias ls=eval", Ask},
	{"alias ls='ls $(id)'", Ask},
	{"alias ls='ls $\"x\"'", Ask},
	{"alias ls='curl x; ls'", Deny},
	{`alias ls="$X"`, Ask},

	{`"$X" curl x`, Ask},
	{"s?do curl x", Ask},
	{"A=1 sudo curl x", Deny},
	{"busybox curl x", None},

	{"mapfile -C 'curl x' -c 1 A", Ask},
	{"mapfile -t A", None},
	{"mapfile $X", Ask},
	{`mapfile "a$X"`, Ask},
	{"jobs -x curl x", Ask},
	{"hash -p /usr/bin/curl ls", Ask},
	{"compgen -W '$(curl x)'", Ask},
	{"command compgen -W '$(curl x)'", Ask},
	{"builtin let 'a[$(curl x)]'", Ask},
	{"builtin test -v 'a[$(curl x)]'", Ask},
}

func TestBehindWrappers(t *testing.T) {
	deny := compileAll(t, []string{"curl **"})
	for _, c := range behindCases {
		got := Lex(c.command).Chain(deny, Table{})
		require.Equal(t, c.want.String(), got.Outcome.String(), "%s\n%+v", c.command, got)
		// The same as an ask pattern: it never says less than ask where it would deny.
		asked := Lex(c.command).Chain(Table{}, deny)
		require.Equal(t, max(c.want, Ask), asked.Outcome, "%s\n%+v", c.command, asked)
	}
}

func TestDoubtIsNotHeldAgainstAnAllowAlone(t *testing.T) {
	allow := compileAll(t, []string{"sudo **"})
	require.Equal(t, Allow, Lex("sudo --frobnicate x").Match(Tables{Allow: allow}).Outcome)
	deny := compileAll(t, []string{"rm **"})
	require.Equal(t, Ask, Lex("sudo --frobnicate x").Match(Tables{Allow: allow, Deny: deny}).Outcome)
}

func TestWrappersWithoutEnd(t *testing.T) {
	deny := compileAll(t, []string{"rm **"})
	for _, chain := range []string{"sudo ", "eval ", "env ", "nohup ", "command ", "xargs ", "find . -exec ", "time ", "A=1 ", "! "} {
		long := strings.Repeat(chain, (maxBytes-10)/len(chain)) + "rm x"
		require.LessOrEqual(t, Lex(long).Chain(deny, Table{}).Outcome, Ask, chain)
		short := strings.Repeat(chain, 3) + "rm x"
		require.LessOrEqual(t, Lex(short).Chain(deny, Table{}).Outcome, Ask, chain)
	}
	nested := "rm x"
	for range 8 {
		nested = "sh -c " + quote(nested)
	}
	require.Equal(t, Deny, Lex(nested).Chain(deny, Table{}).Outcome)
}
