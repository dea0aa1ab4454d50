package argv

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompileErrors(t *testing.T) {
	for _, c := range []struct {
		text   string
		offset int
		msg    string
	}{
		{"", 0, "no words"},
		{" \t\n", 0, "no words"},
		{"rm ** x", 3, "** is not last"},
		{"** **", 0, "** is not last"},
		{"rm; ls", 2, "`;` is not a valid word"},
		{"rm 'x", 3, "reached EOF without closing quote"},
		{"rm $(x)", 3, "no command can match a command substitution"},
		{"rm <(x)", 3, "no command can match a process substitution"},
		{"rm x # note", 0, "a pattern is one line without comments"},
		{"rm x\nrm y", 0, "a pattern is one line without comments"},
		{"rm x\r", 0, "carriage return"},
		{"rm \x00", 0, "NUL byte"},
		{"rm \u202e", 0, "bidirectional control character"},
		{"rm \xff", 0, "invalid UTF-8"},
		{"rm ${(f)x}", 3, "parameter expansion flags"},
		{strings.Repeat("a ", maxBytes), 0, "more than 64 KiB"},
	} {
		_, err := Compile(c.text)
		var pe *PatternError
		require.True(t, errors.As(err, &pe), "%q: %v", c.text, err)
		require.Equal(t, c.text, pe.Pattern)
		require.Equal(t, c.offset, pe.Offset, "%q: %v", c.text, err)
		require.Contains(t, pe.Msg, c.msg, "%q", c.text)
	}
	_, err := Compile("rm ** x")
	require.EqualError(t, err, `pattern "rm ** x": byte 3: ** is not last`)
}

func TestPatternTokens(t *testing.T) {
	for _, c := range []struct {
		pattern, command string
		want             Outcome
	}{
		{"echo '*'", "echo '*'", Allow},
		{"echo '*'", "echo x", Ask},
		{`echo \*`, "echo x", Ask},
		{"echo ''*", "echo x", Ask},
		{"echo '**'", "echo x y", Ask},
		{"echo '**' x", `echo \*\* x`, Allow},
		{"foo*", "foobar", Ask},
		{"foo*", "'foo*'", Allow},
		{"*", "ls", Allow},
		{"*", "ls x", Ask},
		{"ls *", "ls", Ask},
		{"ls **", "ls", Allow},
		{"ls * **", "ls", Ask},
		{"ls * **", "ls x y z", Allow},
		{"'ls' \"x\"y\\z", "ls xyz", Allow},
		{"  ls\tx  \n", "ls x", Allow},
		{"echo $X", "echo $X", Allow},
		{"echo $X", "echo '$X'", Allow},
		{"echo '$X'", "echo $X", Ask}, // its value is another argument list
		{"echo 'a*'", "echo a*", Ask},
		{"echo a*", "echo a*", Allow},
		{"**", "A=1 ls", Ask},
		{"A=1 **", "A=1 ls x", Allow},
		{"A=1 **", "A=1 B=2 ls x", Ask},
		{"A=* ls", "A=1 ls", Ask},
		{"A=1", "A=1", Allow},
		{"* ls", "! ls", Ask},
		{"! ls", "! ls", Allow},
		{"time -p ls", "time -p ls", Allow},
		{"~/bin/x *", "~/bin/x y", Allow},
		{"* y", "~/bin/x y", Ask},
	} {
		p, err := Compile(c.pattern)
		require.NoError(t, err, c.pattern)
		require.Equal(t, c.pattern, p.String())
		got := Lex(c.command).Match(Tables{Allow: NewTable(p)})
		require.Equal(t, c.want.String(), got.Outcome.String(), "%s by %s", c.command, c.pattern)
	}
}

func TestZeroPatternMatchesNothing(t *testing.T) {
	zero := NewTable(Pattern{})
	for _, command := range []string{"ls", "ls $X", "", "A=1"} {
		require.Equal(t, Ask, Lex(command).Match(Tables{Allow: zero}).Outcome, command)
		require.Equal(t, Lex(command).Chain(Table{}, Table{}).Outcome, Lex(command).Chain(zero, zero).Outcome, command)
	}
}

// What a word may become: each line is a command and a deny pattern, and whether the command asks for it.
func TestExpansionsThatMayMatch(t *testing.T) {
	for _, c := range []struct {
		command, deny string
		want          Outcome
	}{
		{"git push $X", "git push --force", Ask},
		{"git push $X", "git push a b c", Ask},
		{"git push $X", "git push", Ask}, // it may vanish
		{`git push "$X"`, "git push", None},
		{`git push "$X"`, "git push a b", None},
		{`git push "$X"`, "git push --force", Ask},
		{`git push "a$X"`, "git push --force", None},
		{"git push a$X", "git push a --force", Ask},
		{"git push a$X", "git push b --force", None},
		{"git push a$X", "git push --force **", None},
		{"git push ${X}b", "git push x --force yb", Ask},
		{"git push ${X}b", "git push x --force yc", None},
		{"git push $X --force", "git push --force", Ask},
		{`git push "$@"`, "git push a b", Ask},
		{"git $X", "git push **", Ask},
		{"git $X y", "git push **", Ask},
		{"git $X y", "git push x", None},
		{"git push --forc?", "git push --force", Ask},
		{"git push --forc?", "git push --forceful", None},
		{"git push -[-]force", "git push --force", Ask},
		{"git push *", "git push --force x", Ask},
		{"git add src/*.go", "git add -A", None},
		{"git add src/*.go", "git add src/x.go src/y.go", Ask},
		{"git add '*'", "git add -A", None},
		{`git add \*`, "git add -A", None},
		{"git {push,--force}", "git push --force", Ask},
		{"git {push,pull}", "git --force", None},
		{"git {a..z}", "git push", Ask},
		{"git {push,$X}", "git push --force", Ask},
		{"git {push}", "git push", None},
		{"git '{push,pull}'", "git push", None},
		{"rm -rf ~", "rm -rf /root", Ask},
		{"rm -rf ~/x", "rm -rf /root/y", None},
		{"r{m,}", "rm **", Ask},
		{"$'rm' x", "rm x", Deny},
		{"$'rm' x", "'$rm' x", Deny},
		{`$"rm" x`, "rm x", Deny},
		{`echo $'\'; rm x #'`, "rm **", Ask},
		{"${X:-rm} x", "rm **", Ask},
		{"echo $((1))", "echo 1", Ask},
		{"echo @(a|b)", "echo a", Ask},
		{"echo x{a,b}$Y", "echo xa rm", Ask},
		{"rm <x", "rm **", Deny},
		{"a 10>x", "rm **", Ask},
		{"a &>x rm y", "rm **", Ask},
		{"a &>x", "rm **", None},
		{"a >& -f", "a f", Ask},
		{"time A=$X b", "time A=rm x b", Ask}, // in dash
		{"A=$X b", "A=rm x b", None},
		{"A=$X b", "A=rm b", Ask},
		{"time if a; then b; fi", "time if a", Ask}, // in dash
		{"a [$X]b", "a x yb", Ask},
		{"a [$X]b", "a x y", None},
		{"a $'b'$X", "a b x", Ask},
		{"a $'b'$X", "a '$b' x", Ask},
		{"a $'b'$X", "c b x", None},
		{"a" + strings.Repeat(" $X", 2000), "a b" + strings.Repeat(" *", 1000), Ask}, // too
		{strings.Repeat("a$X", 2000), strings.Repeat("b", 2000), Ask},                // too much to work out
	} {
		got := Lex(c.command).Chain(compileAll(t, []string{c.deny}), Table{})
		require.Equal(t, c.want.String(), got.Outcome.String(), "%s against %s\n%+v", c.command, c.deny, got)
	}
}
