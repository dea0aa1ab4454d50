package argv

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// grammar is every construct that the package judges, with ways to write it. Each @ is a simple command and each % a
// word that is a program's name.
var grammar = []struct {
	name  string
	texts []string
}{
	{"list", []string{"@; @", "@ && @", "@ || @", "@ | @", "@ |& @", "@ & @", "@\n@", "@;@&&@", "@ &&\n@"}},
	{"continuation", []string{"@ \\\n x", "@ x\\\ny", "\\\n@", "@ \\\n; @", "@ &&\\\n @", "% \\\\\n@", "r\\\nm x", "ti\\\nme @", "A\\\n=1 @", "i\\\nf @; then @; fi", "copr\\\noc @"}},
	{"single quotes", []string{"'%' 'x y'", "% 'a'\\''b'", "% '$X' '`b`' '*'", "% '\n'"}},
	{"double quotes", []string{"\"%\" \"x y\"", "% \"\\$X \\`b\\` \\\\ \\\" \\x\"", "% \"'\"", "% \"a\\\nb\"", "% \"#\" \";\""}},
	{"backslashes", []string{"\\% \\x", "% \\; @", "% \\# @", "% x\\ y", "% \\\\; @", "% \\$\\X"}},
	{"comment", []string{"@ # x; @", "# @\n@", "@ #\n@", "@#x", "% '#' @", "@;# x\n@"}},
	{"continued comment", []string{"@ # x \\\n@", "# \\\n@", "@ #\\\n# \\\n@", "( @ # \\\n@\n)", "@ # \\\\\n@"}},
	{"number sign", []string{"% $#; @", "% $X#y; @", "% \"x\"#y; @", "% ${#X} #; @", "% {#x; @", "@ >#f\n@", "% =#x; @", "A=#x @", "% $(a)#b; @", "(@)#x\n@", "{ @; }#x\n@",
		"%$E#; @", "% x\\\n#y; @", "% ''#; @", "% ~#; @", "% *#; @", "% `a`#b; @", "% <(a)#b; @", "% [#]; @", "$(a #)\n)", "% $((1#1)); @"}},
	{"odd operators", []string{"((%); (@))", "% $((a); (@))", "@ |\n# x\n@", "@ &&# x\n@", "@ & # x\n@", "@ ;& @", "@ &! @", "@ <& @", "@ >| f; @", "@ ;\n\n; @", "@ | ! @", "@ && time @", "&>f @", ">&2 @", "@ <(a) > >(@)"}},
	{"nested quotes", []string{"% \"${X:-\"y; @\"}\"", "% \"${X:-'}\"; @ #'", "% ${X:-'}'}; @", "% \"${X%'}\"; @ '\"", "% \"`echo \"x\"`\"; @", "% \"$(echo \"@\")\"", "% ${X:-`@`}",
		"% '\\'; @ #'", "% \"\\\\\"; @", "% $'\\\\'; @", "% \"a\\\"b\"; @", "% ${X//'/x}; @ '", "% \"$'x'\"; @", "% \"'\"'\"'; @", "% \"${X:-$'}'}\"; @", "% \"${X:-\\}; @}\"", "% \"`echo \\\"; @`\""}},
	{"special parameters", []string{"% $$", "% $- $? $# $0", "% $10 ${10}", "% $-x", "% \"$@x\"", "% x$@", "% \"$*\"", "% $_", "% $", "% $%", "% $/x", "% \"$\"x"}},
	{"command substitution", []string{"% $(@)", "% \"$(@)\"", "% `@`", "% \"`@`\"", "$(echo %) x", "A=$(@) @", "% ${ @; }", "% x$(@)y", "% $(@ $(@))"}},
	{"process substitution", []string{"% <(@)", "@ > >(@)", "% x<(@)"}},
	{"here-document", []string{"@ <<E\n@\nE", "@ <<'E'\n@\nE\n@", "@ <<-E\n\t@\n\tE", "@ <<E; @\n$(@)\nE", "@ <<\\E | @\nx\nE", "@ <<E\nE \nE\n@"}},
	{"here-string", []string{"@ <<<x", "@ <<<\"$(@)\"", "@ <<< x; @"}},
	{"arithmetic expansion", []string{"% $((1 + 1))", "% $((x[$(@)]))", "% $[1]", "% \"$((1))\""}},
	{"parameter expansion", []string{"% ${X:-y}", "% ${!Z}", "% ${#X}", "% ${X:=$(@)}", "% ${X/a/b}", "% ${E:-rm} x", "${E:-%} x", "% ${X[0]}", "% ${X^}", "% ${X:1:2}"}},
	{"prompt expansion", []string{"% ${P@P}", "% \"${P@P}\"", "% ${X@Q}"}},
	{"plain expansion", []string{"% $X", "% \"$X\"", "% ${Y}x", "% $E", "% x$X", "% \"$@\" $*", "% $Y$X", "% $X\\\nY"}},
	{"glob", []string{"% *", "% x*", "% ?.go", "% [x].go", "% [!a]*", "% */x", "% x.[g]o x*"}},
	{"brace", []string{"% {a,b}", "% {1..3}", "% x{,y}", "% {a,{b,c}}", "% {x}", "% {$X,b}", "{%,x} x", "r{m,} x"}},
	{"extended glob", []string{"% ?(a|b)", "% !(x)", "% +(x)"}},
	{"tilde", []string{"% ~", "% ~/x", "% A=~", "% ~root"}},
	{"expansion in the command word", []string{"$Y x", "\"$Y\" x", "$X", "$E@", "r? x", "[r]m x", "%$E x", "~/% x", "$Y$E x"}},
	{"assignment", []string{"A=1 @", "A= @", "A=$X @", "A='x y' B=2 @", "A=1", "A=~ @", "A=* @", "A={a,b} @", ">/dev/null A=1 @"}},
	{"array assignment", []string{"A=(1 2) @", "A[0]=1 @", "A+=1 @", "A=($(@))", "A=(#x\n@)"}},
	{"not", []string{"! @", "! @ | @", "! ! @"}},
	{"time", []string{"time @", "time -p @", "! time @", "time", "time (@)", "time -- @", "time ! @"}},
	{"harmless redirection", []string{"@ >/dev/null", "@ 2>&1", "@ </dev/null 2>/dev/null", "2>&1 @", "@ >|/dev/null", "@ >&2", "% 2\\\n>&1"}},
	{"redirection", []string{"@ >f", "<x.go @", "@ >>f", "@ <>f", "@ 2>f", "@ &>f", "@ &>>f", "@ >& f", "@ 3>&1", "@ >&-", "@ {v}>f", "@ 10>f x", "@ &>f x", "@ >&'$(@)'", "@ >& -f", "@ 2>&1-"}},
	{"subshell", []string{"(@)", "(@; @)", "( (@) )", "(@) | @", "(@)#", "(@) >f"}},
	{"brace group", []string{"{ @; }", "{ @\n}", "{ @; } | @", "{ @ & }"}},
	{"if", []string{"if @; then @; fi", "if @; then @; elif @; then @; else @; fi", "if @\nthen @\nfi"}},
	{"while", []string{"while f; do @; done", "while ! a; do @; done"}},
	{"until", []string{"until a; do @; done", "until ! f; do @; done"}},
	{"for", []string{"for i in 1 2; do @; done", "for i in $X; do $i; done", "for i do @; done", "for ((i=0;i<1;i++)); do @; done", "for i in {%,x}; do $i; done"}},
	{"case", []string{"case x in x) @;; esac", "case x in (y) @;; *) @; esac", "case $X in $(@)) @;; esac", "case x in x) @;& y) @;; esac", "case x in esac"}},
	{"function", []string{"g() { @; }; g", "function g { @; }; g", "g() (@)\ng", "%() { x; }; %", "g() @\ng"}},
	{"coproc", []string{"coproc @", "coproc N { @; }", "coproc (@)"}},
	{"select", []string{"select i in 1; do @; break; done <x.go"}},
	{"test", []string{"[[ -f x.go ]] && @", "[[ $(@) ]]", "[[ a == a ]]; @", "[ -f x.go ] && @", "test -v 'q[$(@)]'"}},
	{"arithmetic command", []string{"((1)); @", "((x[$(@)]))", "((@))", "let x=1; @"}},
	{"ANSI quotes", []string{"$'%' x", "% $'\\x72m'", "% $'a\\'b' @", "$'\\162m' x", "% $'x'\"y\"", "% $'\\\\'"}},
	{"locale quotes", []string{"$\"%\" x", "% $\"x\""}},
	{"export", []string{"export A=1; @", "export A=$X @", "readonly A; @", "export A='x y'"}},
	{"declare", []string{"declare A=1; @", "local A", "typeset -x A=1", "declare -a A=($(@))", "declare 'A[$(@)]=1'"}},
	{"unicode", []string{"%\u00a0x", "% \u200b", "% é", "%\u3000@", "% '\u00a0'", "% \ufe0f"}},
	{"refused", []string{"@ \r\n@", "% \"$\\\n(@)\"", "@ &\\\n& @", "% \u202e", "@ <\\\n<E\n@\nE", "@\x0c@"}},
	{"syntax error", []string{"@ ; ; @", "@\n)", "@ && ", "@\n'x", "@; fi", "@\nif @", "% (x)", "% `x"}},
	{"eval", []string{"eval @", "eval '@'", "eval 'a; @'", "eval \"$X\"", "eval eval '@'", "\\eval '@'"}},
	{"trap", []string{"trap '@' EXIT", "trap -- '@' EXIT", "trap '@' 0; @"}},
	{"alias", []string{"alias q='@'\nq", "alias %=a\n% x", "alias q='% '\nq x"}},
	{"builtin", []string{"command @", "builtin @", "exec @", "command -p @", "exec -a q @", "builtin eval '@'", ". ./x.go", "builtin command @"}},
	{"text of a builtin", []string{"jobs -x @", "hash -p ./x.go %", "echo 1 | mapfile -C '@ ' -c 1 A", "compgen -W '$(@)'", "printf -v 'q[$(@)]' x", "unset 'q[$(@)]'", "command jobs -x @"}},
	{"wrapper", []string{"sudo @", "env A=1 @", "timeout 5 @", "nice @", "nohup @", "xargs @", "find . -exec @ \\;", "sh -c '@'", "/bin/% x", "./% x"}},
	{"reserved word", []string{"% if", "'if' x", "\\if x", "% }", "{ x", "% then; @", "} @", "'time' @", "'!' @"}},
}

// fill writes one way of the construct at place i of grammar.
func fill(rng *rand.Rand, i int) string {
	var b strings.Builder
	for _, c := range pickOne(rng, grammar[i].texts) {
		switch c {
		case '@':
			b.WriteString(simpleCommand(rng))
		case '%':
			b.WriteString(programs[rng.IntN(6)])
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// generateGrammar makes up a command of one construct, or of two beside each other or one in the other, and counts
// them in reached.
func generateGrammar(rng *rand.Rand, reached map[string]int) string {
	first, second := rng.IntN(len(grammar)), rng.IntN(len(grammar))
	reached[grammar[first].name]++
	text := fill(rng, first)
	switch rng.IntN(4) {
	case 0:
		return text
	case 1:
		reached[grammar[second].name]++
		way := pickOne(rng, grammar[second].texts)
		if strings.Count(way, "@") == 1 {
			return strings.ReplaceAll(strings.ReplaceAll(way, "@", text), "%", "a")
		}
	}
	reached[grammar[second].name]++
	return text + pickOne(rng, separators) + fill(rng, second)
}

// requireReached fails if a construct was generated less than times times.
func requireReached(t *testing.T, reached map[string]int, times int) {
	t.Helper()
	for _, g := range grammar {
		require.GreaterOrEqual(t, reached[g.name], times, g.name)
	}
}
