package argv

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each row of the package's promise: what Match says of a construct when everything is allowed and nothing
// denied, and what Chain says when `rm **` is denied.
var constructCases = []struct {
	command string
	match   Outcome
	chain   Outcome
}{
	{"a; b", Allow, None},
	{"a && b || a | b |& a & b\na", Allow, None},
	{"a; rm x", Allow, Deny},
	{"'a' \"b\"\\c \\\n d", Allow, None},
	{"r\\\nm x", Allow, Deny},
	{"a \\", Ask, Ask},
	{"rm x \\", Ask, Deny},
	{"a \\\\", Allow, None},

	{"a $(rm x)", Ask, Ask},
	{"rm $(a)", Ask, Ask},
	{"a `rm x`", Ask, Ask},
	{"a \"`rm x`\"", Ask, Ask},
	{"a <(rm x)", Ask, Ask},
	{"a > >(rm x)", Ask, Ask},
	{"a ${ rm x; }", Ask, Ask},
	{"a ${x:-$(rm y)}", Ask, Ask},
	{"a $((1 + $(rm x)))", Ask, Ask},
	{"a ${x[$(rm y)]}", Ask, Ask},
	{"A=$(rm x)", Ask, Ask},
	{"export A=$(rm x)", Ask, Ask},
	{"A=($(rm x))", Ask, Ask},
	{"A[$(rm x)]=1", Ask, Ask},
	{"a > $(rm x)", Ask, Ask},
	{"a <<E\nx\nE", Ask, Ask},
	{"a <<-E\nx\nE", Ask, Ask},
	{"a <<<x", Ask, Ask},
	{"{ a; } <<E\nx\nE", Ask, Ask},
	{"a | { b; } <<<x", Ask, Ask},

	{"a $((1))", Ask, None},
	{"a $[1]", Ask, None},
	{"rm $((1))", Ask, Deny},
	{"a ${x:-y}", Ask, None},
	{"rm ${x:-y}", Ask, Deny},
	{"a ${!x} ${#x} ${x[0]} ${x/a/b} ${x:1:2} ${x^}", Ask, None},
	{"a ${x@P}", Ask, Ask},
	{"a \"${x@P}\"", Ask, Ask},
	{"a ${x@Q}", Ask, None},
	{"a $X ${X} \"$X\" $1 $? \"$@\"", Allow, None},
	{"a *.go {a,b} ? [x] ~", Allow, None},
	{"$X a", Ask, Ask},
	{"\"$X\" a", Ask, Ask},
	{"a*b x", Ask, None},
	{"~/a x", Ask, None},

	{"A=1 a", Ask, None},
	{"A=1 rm x", Ask, Deny},
	{"A+=1 a", Ask, None},
	{"A=(1 2)", Ask, None},
	{"A[0]=1", Ask, None},
	{"! a", Ask, None},
	{"! rm x", Ask, Deny},
	{"time a", Ask, None},
	{"time rm x", Ask, Deny},
	{"time", Ask, None},
	{"! time -p rm x | a", Ask, Deny},
	{"time -- a", Ask, Ask},
	{"time -- rm x", Ask, Deny},
	{"time { a; }", Ask, None},

	{"a 2>&1 >/dev/null 2>>/dev/null </dev/null >&2 1>&2 <&0 <>/dev/null >|/dev/null", Allow, None},
	{"a >'/dev/null'", Allow, None},
	{"a >f", Ask, None},
	{"rm x >f", Ask, Deny},
	{">f rm x", Ask, Deny},
	{"a >/dev/nullx", Ask, None},
	{"a &>/dev/null", Ask, None},
	{"a >&f", Ask, None},
	{"a >&-", Ask, None},
	{"a >&'$(rm x)'", Ask, Ask},
	{"a >&\"$X\"", Ask, Ask},
	{"a 3>&1", Ask, None},
	{"a >&3", Ask, None},
	{"a > \"$X\"", Ask, None},
	{"a 2>&1x", Ask, None},
	{"a {v}>f", Ask, Ask},
	{"2>&1", Ask, None},

	{"(a)", Ask, None},
	{"(rm x)", Ask, Deny},
	{"{ rm x; }", Ask, Deny},
	{"if a; then b; elif rm x; then a; fi", Ask, Deny},
	{"if a; then b; else rm x; fi", Ask, Deny},
	{"while rm x; do a; done", Ask, Deny},
	{"until a; do rm x; done", Ask, Deny},
	{"for i in a; do rm $i; done", Ask, Deny},
	{"for i; do rm $i; done", Ask, Deny},
	{"for ((i=0;i<1;i++)); do rm x; done", Ask, Deny},
	{"for ((i=$(a);;)); do b; done", Ask, Ask},
	{"select i in a; do rm x; done", Ask, Deny},
	{"case x in a) b;; x) rm y;& *) a;; esac", Ask, Deny},
	{"case $(a) in x) b;; esac", Ask, Ask},
	{"case x in $(a)) b;; esac", Ask, Ask},
	{"case x in esac", Ask, None},
	{"f() { rm x; }", Ask, Deny},
	{"function f { rm x; }", Ask, Deny},
	{"coproc rm x", Ask, Deny},
	{"coproc N { rm x; }", Ask, Deny},
	{"coproc rm >/dev/null", Ask, Ask},
	{"coproc rm A=1", Ask, Deny},
	{"coproc a {b,c} | a", Ask, Ask},
	{"time (rm x)", Ask, Deny},
	{"( a ) > f", Ask, None},

	{"[[ -f x ]]", Ask, Ask},
	{"[[ -f x ]] && rm x", Ask, Deny},
	{"((x))", Ask, Ask},
	{"let x=1", Ask, Ask},
	{"\\let x=1", Ask, Ask},
	{"'if' a", Ask, Ask},

	{"$'a' b", Ask, None},
	{"$'\\x72m' x", Ask, Deny},
	{"$\"a\" b", Ask, None},
	{"a $'b'", Ask, None},

	{"export A=1", Allow, None},
	{"readonly A='b c'", Allow, None},
	{"export -n A", Allow, None},
	{"export A[0]=1", Ask, None},
	{"declare -x A=1", Ask, None},
	{"local A=1", Ask, None},
	{"typeset A", Ask, None},
	{"'declare' -x A=1", Ask, None},

	{"a\u00a0b", Ask, None},
	{"rm \u200b", Ask, Deny},
	{"a '\u00a0'", Allow, None},
	{"a \\\u00a0", Ask, None},
	{"a \ufe0f", Ask, None},
	{"a \u3164", Ask, None},
	{"é 日本 🚀", Allow, None},
	{"a # rm x", Allow, None},
	{"", Ask, Ask},
	{"# rm x", Ask, Ask},
	{"a)", Ask, Ask},
	{"rm x; b)", Ask, Ask},
	{"rm x\nb)", Ask, Deny},
	{"rm x\na 'b", Ask, Deny},
	{"{ rm x\na 'b", Ask, Ask},
	{"a\r", Ask, Ask},
	{"a\u0085", Ask, Ask},

	{"eval a", Ask, None},
	{". a", Ask, None},
	{"source a", Ask, None},
	{"trap a EXIT", Ask, None},
	{"alias a=b", Ask, None},
	{"builtin a", Ask, None},
	{"command a", Ask, None},
	{"exec a", Ask, None},
	{"exec rm x", Ask, Deny},
	{"sudo a", Allow, None},
	{"sh -c 'rm x'", Allow, Deny},

	// Builtins in which bash evaluates the subscript of a quoted name.
	{"test -v 'a[$(rm x)]'", Ask, Ask},
	{"[ -v 'a[$(rm x)]' ]", Ask, Ask},
	{"printf -v 'a[`rm x`]' y", Ask, Ask},
	{"printf -v'a[`rm x`]' y", Ask, Ask},
	{"printf '[$x]'", Allow, None},
	{"read 'a[$(rm x)]'", Ask, Ask},
	{"unset 'a[$(rm x)]'", Ask, Ask},
	{"declare 'a[$(rm x)]=1'", Ask, Ask},
	{"mapfile -C 'rm x' a", Ask, Ask},
	{"mapfile -t a", Allow, None},
	{"mapfile $X", Ask, Ask},
	{"jobs -x rm x", Ask, Ask},
	{"hash -p /bin/rm a", Ask, Ask},
	{"compgen -W x", Ask, Ask},

	// The same, where the name comes out of a variable.
	{`test -v "$X"`, Ask, Ask},
	{`[ ! -v "$X" ]`, Ask, Ask},
	{"[ $X ]", Ask, None},
	{`[ "$X" "$Y" ]`, Ask, None},
	{`[ "$X" = "$Y" ]`, Allow, None},
	{`[ -n "$X" ] && [ $# -gt 1 ]`, Allow, None},
	{`printf -v "$X" y`, Ask, Ask},
	{`printf -v"$X" y`, Ask, Ask},
	{`printf "$X" y`, Ask, None},
	{`printf "a$X\n" "$Y"`, Allow, None},
	{`read -r "$X"`, Ask, Ask},
	{`read -rp "$X" y`, Allow, None},
	{`unset "a$X"`, Ask, Ask},
	{`getopts ab "$X"`, Ask, Ask},
	{`getopts "$X" o "$@"`, Allow, None},
	{`wait -n -p "$X"`, Ask, Ask},
	{"wait $X", Allow, None},
	{`export "$X"`, Ask, Ask},
	{`export "A=$X" B=$Y`, Allow, None},
	{`f() { local a="$1" b=$2; }`, Ask, None},
	{"A='a[$(rm x)]'", Ask, Ask},
	{"A='a[$(rm x)]'$X", Ask, Ask},
	{`A="[$X]"; B="[$((A + 1))]"`, Ask, None},

	// Variables of bash that change what runs.
	{"BASH_CMDS[a]=/bin/rm; a x", Ask, Ask},
	{"BASH_ALIASES=([a]=rm)", Ask, Ask},
	{"printf -v 'BASH_ALIASES[a]' rm", Ask, Ask},
	{"printf -v PS4 '\\44(rm x)'; set -x; a", Ask, Ask},
	{"export PS4='$(rm x)'; set -x; a", Ask, Ask},
	{"for PS4 in '$(rm x)'; do set -x; done", Ask, Ask},
	{": ${PS4:='$(rm x)'}", Ask, Ask},
	{"env PS4='$(rm x)' bash -xc a", Ask, Ask},
	{"read PS4", Ask, Ask},
	{"grep PS4 a", Allow, None},
	{"test -f x", Allow, None},
	{"[ -f x ]", Allow, None},
}

func TestConstructs(t *testing.T) {
	allow, deny := compileAll(t, []string{"**"}), compileAll(t, []string{"rm **"})
	for _, c := range constructCases {
		require.Equal(t, c.match.String(), Lex(c.command).Match(Tables{Allow: allow}).Outcome.String(), "match %q", c.command)
		require.Equal(t, c.chain.String(), Lex(c.command).Chain(deny, Table{}).Outcome.String(), "chain %q", c.command)
		both := Lex(c.command).Match(Tables{Allow: allow, Deny: deny}).Outcome
		require.Equal(t, min(c.match, c.chain), both, "match with deny %q", c.command)
	}
}

// The decoder is compared with bash itself.
func TestANSIQuoting(t *testing.T) {
	r := newReferee(t, "bash")
	r.patience = 3 * time.Minute
	for _, body := range []string{
		`rm`, `\x72m`, `\162m`, `\u0072m`, `\U00000072m`, `\x{72}m`, `\x{72m`, `\a\b\e\E\f\n\r\t\v`, `\\\"\'\?`, `\xe9\x7`, `\0162m`, `\8`, `\q`, `\u`, `\x`, `\xzz`, `\ca`, `\cZ`,
		`\x{123456789}`, `\x{ffffffffff41}`, `\777`, `\c\\x41`, `\c\\`, `\c`, `\cé`,
		`a\0b`, `\u00e9\U1F680`, `\377`, `\x`, `é\té`, `a\`,
	} {
		ran := r.run(t, "a $'"+body+"'")
		if body == `a\` {
			require.Empty(t, ran) // the quote is escaped
			continue
		}
		require.Len(t, ran, 1, body)
		require.Equal(t, ran[0][1], decodeANSI(body), body)
	}
}

// Bash takes braces between inner quotes for braces: what stands in quotes becomes several words.
func TestBracesBetweenInnerQuotes(t *testing.T) {
	for _, tc := range []struct {
		command, deny string
		want          Outcome
	}{
		{`a "${X:-"{a,b}"}"`, `a 'rm x' 'rm x'`, Ask},
		{`a "p${X:-"{a,b}"}s"`, `a p1s p1s`, Ask},
		{`a "${X:-"b"}"`, `a *`, Deny},
		{`a "${X:-"b"}"`, `a * *`, None},
		{`a "${X:-{a,b}}"`, `a * *`, None},
	} {
		p, err := Compile(tc.deny)
		require.NoError(t, err)
		require.Equal(t, tc.want, Lex(tc.command).Chain(NewTable(p), Table{}).Outcome, tc.command)
	}
}
