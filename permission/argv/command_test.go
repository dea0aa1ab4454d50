package argv

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"
)

func TestExplain(t *testing.T) {
	tables := Tables{
		Allow: compileAll(t, []string{"npm test", "echo **", "git **"}),
		Ask:   compileAll(t, []string{"git push **"}),
		Deny:  compileAll(t, []string{"curl **", "git push --force"}),
	}
	for _, c := range []struct {
		command string
		want    []Segment
	}{
		{"npm test; rm -rf /", []Segment{{"npm test", "allow", "allow", "npm test", ""}, {"rm -rf /", "ask", "", "", ""}}},
		{"git push origin", []Segment{{"git push origin", "ask", "ask", "git push **", ""}}},
		{"sudo curl x >f", []Segment{{"sudo curl x >f", "deny", "deny", "curl **", ""}}},
		{"echo x > f", []Segment{{"echo x > f", "ask", "", "", "redirection"}}},
		{"echo x 2>/dev/null", []Segment{{"echo x 2>/dev/null", "allow", "allow", "echo **", harmlessNote}}},
		{"git push $X", []Segment{{"git push $X", "ask", "ask", "git push **", ""}}},
		{"git $X", []Segment{{"git $X", "ask", "deny", "git push --force", mayExpand}}},
		{"echo $(id)", []Segment{{"echo $(id)", "ask", "", "", "command substitution"}}},
		{"echo ${x@P}", []Segment{{"echo ${x@P}", "ask", "", "", "prompt expansion ${…@P}"}}},
		{"for i in 1; do echo $i; done", []Segment{{"echo $i", "ask", "", "", "for"}}},
		{"for i in $(ls); do echo $i; done", []Segment{
			{"for i in $(ls); do echo $i; done", "ask", "", "", "command substitution"}, {"echo $i", "ask", "", "", "for"}}},
		{"! echo a | curl x", []Segment{{"! echo a", "ask", "", "", ""}, {"curl x", "deny", "deny", "curl **", ""}}},
		{"((x))", []Segment{{"((x))", "ask", "", "", "(( ))"}}},
		{"(echo)", []Segment{{"echo", "ask", "", "", "subshell"}}},
		{"A=1", []Segment{{"A=1", "ask", "", "", ""}}},
		{">f", []Segment{{">f", "ask", "", "", "redirection"}}},
		{"", []Segment{{"", "ask", "", "", "no command"}}},
		{"# x", []Segment{{"# x", "ask", "", "", "no command"}}},
		{"curl x\n)", []Segment{{"curl x", "deny", "deny", "curl **", ""}, {"curl x\n)", "ask", "", "", "syntax error"}}},
		{"echo \x1b[2K", []Segment{{`echo \x1b[2K`, "ask", "", "", "control character"}}},
		{"echo \u202e", []Segment{{`echo \u202e`, "ask", "", "", "bidirectional control character"}}},
		{"echo \xff", []Segment{{`echo \xff`, "ask", "", "", "invalid UTF-8"}}},
		{"eval x", []Segment{{"eval x", "ask", "", "", "eval"}}},
		{"$X", []Segment{{"$X", "ask", "deny", "curl **", mayExpand}}},
	} {
		require.Equal(t, c.want, Lex(c.command).Match(tables).Segments, c.command)
	}
}

func TestResultNamesThePatternThatDecided(t *testing.T) {
	deny, ask := compileAll(t, []string{"a", "b **"}), compileAll(t, []string{"c", "d **"})
	for _, c := range []struct {
		command, table string
		outcome        Outcome
		index          int
	}{
		{"x; b y; a", TableDeny, Deny, 1},
		{"d; b", TableDeny, Deny, 1},
		{"c; d", TableAsk, Ask, 0},
		{"$X", TableDeny, Ask, 0},
		{"x", "", None, -1},
		{"x $(y)", "", Ask, -1},
	} {
		got := Lex(c.command).Chain(deny, ask)
		require.Equal(t, c.outcome, got.Outcome, c.command)
		require.Equal(t, c.table, got.Table, c.command)
		require.Equal(t, c.index, got.Index, c.command)
	}
	require.Equal(t, "command substitution", Lex("x $(y)").Chain(deny, ask).Construct)
}

func TestSegmentJSON(t *testing.T) {
	data, err := json.Marshal(Lex("git push --force origin").Chain(compileAll(t, []string{"git push --force **"}), Table{}).Segments)
	require.NoError(t, err)
	require.JSONEq(t, `[{"segment":"git push --force origin","verdict":"deny","table":"deny","pattern":"git push --force **","construct":""}]`, string(data))
}

func TestZeroValues(t *testing.T) {
	require.Equal(t, Deny, Outcome(0))
	require.Equal(t, Ask, Command{}.Match(Tables{}).Outcome)
	require.Equal(t, Ask, Command{}.Chain(Table{}, Table{}).Outcome)
	require.Equal(t, "invalid", Outcome(9).String())
}

func TestLexArgv(t *testing.T) {
	deny := compileAll(t, []string{"rm **"})
	for _, c := range []struct {
		args []string
		want Outcome
	}{
		{[]string{"ls", "$X", "*", "; rm x", "$(rm x)"}, None},
		{[]string{"rm", "x"}, Deny},
		{[]string{"/bin/rm", "x"}, Deny},
		{[]string{"sudo", "rm", "x"}, Deny},
		{[]string{"sh", "-c", "rm x"}, Deny},
		{[]string{"sh", "-c", "ls $(id)"}, Ask},
		{[]string{"!", "x"}, None},
		{[]string{""}, None},
		{[]string{"ls", "a\nb\tc"}, None},
		{[]string{"ls", "a\x00"}, Ask},
		{[]string{"ls", "\u202e"}, Ask},
		{[]string{"ls", strings.Repeat("x", maxBytes)}, Ask},
		{nil, Ask},
	} {
		require.Equal(t, c.want.String(), LexArgv(c.args).Chain(deny, Table{}).Outcome.String(), "%q", c.args)
	}
	got := LexArgv([]string{"ls", "a b", "it's"}).Match(Tables{Allow: compileAll(t, []string{"ls * *"})})
	require.Equal(t, []Segment{{`ls 'a b' 'it'\''s'`, "allow", "allow", "ls * *", ""}}, got.Segments)
}

func TestLimits(t *testing.T) {
	deny := compileAll(t, []string{"rm **"})
	for name, c := range map[string]struct {
		command   string
		want      Outcome
		construct string
	}{
		"size":           {"rm " + strings.Repeat("x", maxBytes), Ask, "more than 64 KiB"},
		"brackets":       {strings.Repeat("( ", 401) + "rm x" + strings.Repeat(" )", 401), Ask, "more than 400 open brackets"},
		"nested":         {strings.Repeat("( ", 201) + "rm x" + strings.Repeat(" )", 201), Ask, tooDeep},
		"nested enough":  {strings.Repeat("( ", 200) + "rm x" + strings.Repeat(" )", 200), Deny, ""},
		"keywords":       {strings.Repeat("if a; then ", 3000) + "rm x" + strings.Repeat("; fi", 3000), Ask, "too many compound commands"},
		"nested if":      {strings.Repeat("if a; then ", 300) + "rm x" + strings.Repeat("; fi", 300), Ask, tooDeep},
		"dollar newline": {"rm \"$\\\n(x)\"", Ask, "dollar before a line continuation"},
		"split operator": {"rm x &\\\n& a", Ask, "line continuation inside an operator"},
		"many comments":  {strings.Repeat("# \\\n", 2000) + "rm x", Deny, ""},
	} {
		got := Lex(c.command).Chain(deny, Table{})
		require.Equal(t, c.want.String(), got.Outcome.String(), name)
		require.Equal(t, c.construct, got.Construct, name)
	}
}

func TestManySegments(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "echo %d; ", i)
	}
	allow := compileAll(t, []string{"echo *"})
	got := Lex(b.String()).Match(Tables{Allow: allow})
	require.Equal(t, Allow, got.Outcome)
	require.Len(t, got.Segments, maxExplained)

	got = Lex(b.String() + "rm x").Match(Tables{Allow: allow})
	require.Equal(t, Ask, got.Outcome)
	require.Len(t, got.Segments, maxExplained)
	require.Equal(t, "rm x", got.Segments[maxExplained-1].Segment)
}

func TestLongSegmentIsCut(t *testing.T) {
	long := "echo " + strings.Repeat("é", 4000)
	got := Lex(long).Match(Tables{Allow: compileAll(t, []string{"echo *"})}).Segments[0].Segment
	require.LessOrEqual(t, len(got), maxShown+len(ellipsis))
	require.True(t, strings.HasSuffix(got, ellipsis))
	_, ok := Suggest(got)
	require.False(t, ok, "a cut text is another command")
}

func TestComments(t *testing.T) {
	deny := compileAll(t, []string{"rm **"})
	for command, want := range map[string]Outcome{
		"npm test # x \\\nrm -rf y":        Deny,
		"# \\\n# \\\nrm x":                 Deny,
		"( a 'b'#'; rm x'\n)":              Ask, // the parser sees a comment where there is none
		"( a 'b'#; rm x\n)":                Ask,
		"a 'b'#; rm x":                     Deny,
		"case x in x) a ''#; rm y;; esac":  Ask,
		"a \\\n# rm x":                     None,
		"a \\\\\n# rm x":                   None,
		"a #\\\\\nrm x":                    Deny,
		"(a)#; rm x":                       Ask,
		"( a @(b)#; rm x\n)":               Ask,
		"npm test # x \\\nrm -rf y\n)":     Deny,
		"a\\\n#b; rm x":                    Deny,
		"rm x # \\\n(\nb '":                Deny,
		"(a)# x\nb \\\n '":                 Ask,
		"rm x\n(a)# x\nb \\\n '":           Deny,
		"rm x\n# \\\n(\nb '":               Deny,
		"a;#b; rm x":                       None,
		"echo '#\n' ; rm x":                Deny,
		"if a; then # \\\nrm x\nfi # done": Deny,
	} {
		require.Equal(t, want.String(), Lex(command).Chain(deny, Table{}).Outcome.String(), "%q", command)
	}
}

// What is told of a compound is its head.
func TestExcerpt(t *testing.T) {
	got := Lex("for i in $(b) "+strings.Repeat("é ", 60)+"; do c; done").Chain(Table{}, Table{})
	require.Equal(t, "for i in $(b) "+strings.Repeat("é ", 35)+ellipsis, got.Segments[0].Segment)
	require.Equal(t, "for i in $(b) x"+strings.Repeat("é ", 35)+ellipsis,
		Lex("for i in $(b) x"+strings.Repeat("é ", 60)+"; do c; done").Chain(Table{}, Table{}).Segments[0].Segment)
}

func TestParserThatPanicsAsks(t *testing.T) {
	newParser = func(...syntax.ParserOption) *syntax.Parser { panic("broken") }
	defer func() { newParser = syntax.NewParser }()
	got := Lex("ls").Match(Tables{Allow: NewTable(exact([]string{"ls"}))})
	require.Equal(t, Ask, got.Outcome)
	require.Equal(t, lexerFailed, got.Construct)
	_, err := Compile("ls")
	require.ErrorContains(t, err, "parser failed: broken")
	_, ok := Suggest("ls")
	require.False(t, ok)
}

func TestCommentsWithoutEndAsk(t *testing.T) {
	most := maxReparse
	maxReparse = 1
	defer func() { maxReparse = most }()
	got := Lex("ls # \\\nrm x").Match(Tables{Allow: compileAll(t, []string{"**"})})
	require.Equal(t, Ask, got.Outcome)
	require.Equal(t, "comments that end in a backslash", got.Construct)
}

// A later parser may make of the text what this one does not.
func TestTreesThatNoTextHas(t *testing.T) {
	word := func(text string) *syntax.Word {
		return &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: text}}}
	}
	call := &syntax.Stmt{Cmd: &syntax.CallExpr{Args: []*syntax.Word{word("rm")}}}
	file := &syntax.Redirect{Op: syntax.RdrOut, Word: word("f")}
	for name, s := range map[string]*syntax.Stmt{
		"coprocess":       {Disown: true, Cmd: call.Cmd},
		"unknown command": {Cmd: &syntax.TestDecl{Body: call}},
		"redirection":     {Redirs: []*syntax.Redirect{file}, Cmd: &syntax.BinaryCmd{Op: syntax.AndStmt, X: call, Y: call}},
	} {
		l := lexer{}
		l.stmt(s, scope{})
		got := Command{segments: l.segments}.Match(Tables{Allow: compileAll(t, []string{"**"})})
		require.Equal(t, Ask, got.Outcome, name)
		require.Equal(t, name, got.Construct)
	}
	require.Zero(t, errorLine(errors.New("another kind")))
	b := builder{}
	b.quotedLit("a\\\nb\\\\c")
	require.Equal(t, `ab\c`, b.text.String(), "a continued line in quotes")
}

func TestSuggest(t *testing.T) {
	for segment, want := range map[string]string{
		"npm test":            "npm test",
		"echo '*' \"**\" ''":  "echo '*' '**' ''",
		"! npm test":          "! npm test",
		"A='b c' npm test":    "'A=b c' npm test",
		"npm test 2>&1":       "npm test",
		"echo 'it'\"'\"'s'":   `echo 'it'\''s'`,
		"echo $X":             "",
		"echo a*":             "",
		"echo $(id)":          "",
		"eval x":              "",
		"npm test > f":        "",
		"npm test; npm build": "",
		"(npm test)":          "",
		"$'npm' test":         "",
		"npm 'te":             "",
		"":                    "",
	} {
		got, ok := Suggest(segment)
		require.Equal(t, want, got, segment)
		require.Equal(t, want != "", ok, segment)
	}
}
