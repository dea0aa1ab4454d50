//go:build unix

package toolbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The interpreter panics on these. In a goroutine of its own that would end the worker.
func TestACommandOnWhichTheInterpreterPanicsEndsItsCall(t *testing.T) {
	for _, bad := range []string{
		`[[ -v "" ]]`, `test -R ""`, `unset ""`, `f() { shift -1; }; f`, `declare -n r=; echo $r`,
		`declare -A m=(1 2)`, `declare -A m; m[k]=v; echo ${m[-1]}`, `((--a[0]++))`,
	} {
		for _, command := range []string{
			bad, "{ " + bad + "; } | cat", "{ " + bad + "; } |& cat", "true | { " + bad + "; }", "{ " + bad + "; } & wait",
			"cat <(" + bad + ")", "true > >(" + bad + "); wait", "x=$({ " + bad + "; } | cat)", "( { " + bad + "; } & wait) | cat",
			"eval '{ " + bad + "; } | cat'", "trap '{ " + bad + "; } & wait' EXIT", "g() { { " + bad + "; } | cat; }; g | g",
			"echo '{ " + bad + "; } | cat' > f; . ./f", "cat <<E | { " + bad + "; } | cat\nx\nE",
		} {
			require.ErrorIs(t, interpretIn(t, command, maxMemory), errShellFailed, command)
		}
	}
}

// Parts that run apart from the rest see and do what they do in every shell.
func TestPartsThatRunApart(t *testing.T) {
	for _, command := range []string{
		`x=1; f() { local y=2; echo $x $y "$@" | grep -q '^1 2 a b$'; }; f a b`,
		`set -- p q; echo "$@" $# | grep -q '^p q 2$'`,
		"cat <<E | tr a-z A-Z | grep -q '^X 2$'\nx $((1+1))\nE",
		"cat <<'E' | grep -q '^$x `y`$'\n$x `y`\nE",
		`exit 3 | cat`,
		`set -o pipefail; exit 3 | cat; [ $? = 3 ]`,
		`(exit 4) & wait $!; [ $? = 4 ]`,
		`! echo a | grep -q b`,
		`[ "$(echo 'a  "b"' | cat; echo 'c\d' | cat)" = "$(printf 'a  "b"\nc\\d')" ]`,
		"[ `echo a | tr a b` = b ]",
		`{ echo a; echo b >&2; } |& grep -q b`,
		`eval 'echo a | grep -q a'`,
		`a=(1 "2 3"); printf '%s.' "${a[@]}" | grep -q '^1.2 3.$'`,
		`for i in 1 2; do echo $i | cat & wait; done`,
		`echo a | while read -r l; do [ "$l" = a ] || exit 9; done`,
		`[ "$(cat <(echo a; echo b | cat))" = "$(printf 'a\nb')" ]`,
	} {
		require.NoError(t, interpretIn(t, command, maxMemory), command)
	}
}
