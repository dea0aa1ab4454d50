package argv

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// longCommands are shapes of commands that grow: head, then unit again and again, then tail.
var longCommands = []struct{ name, head, unit, tail string }{
	{"segments", "", "ls x; ", "rm x"},
	{"pipeline", "", "ls x | ", "rm x"},
	{"list", "", "ls x && ", "rm x"},
	{"lines", "", "ls x\n", "rm x"},
	{"one word", "ls ", "x", ""},
	{"arguments", "ls", " x", ""},
	{"quoted arguments", "ls", " 'x'\"y\"\\z", ""},
	{"escapes", "ls ", "\\x", ""},
	{"continuations", "ls ", "x\\\n", ""},
	{"runes", "ls ", "é", ""},
	{"assignments", "", "A=1 ", "rm x"},
	{"assignments without a command", "", "A=1 ", ""},
	{"expanded assignments", "", "A=$X ", "rm x"},
	{"globs in assignments", "", "A=* ", "rm x"},
	{"exports", "export", " A=$X", ""},
	{"expansions", "ls", " $X", ""},
	{"quoted expansions", "ls", " \"$X\"", ""},
	{"expansions in one word", "ls ", "a$X", ""},
	{"expansions of a program", "", "$X", " rm x"},
	{"globs", "ls", " *.go", ""},
	{"globs in one word", "ls ", "*a", ""},
	{"globs of a program", "", "*a", " x"},
	{"question marks", "ls ", "?", ""},
	{"braces", "ls", " {a,b}", ""},
	{"commas in braces", "ls {", "a,", "b}"},
	{"open brackets", "ls ", "[", ""},
	{"closed brackets", "ls ", "]", ""},
	{"tildes", "ls ", "~:", ""},
	{"paths", "", "/a", "/rm x"},
	{"paths with expansions", "", "/$X", "/rm x"},
	{"redirections", "ls", " >&2", ""},
	{"files", "ls", " >f", ""},
	{"comments", "", "ls # x\n", "rm x"},
	{"continued comments", "", "# x \\\n", "rm x"},
	{"subshells", "", "(ls x); ", "rm x"},
	{"nested subshells", "", "( ", "rm x"},
	{"ifs", "", "if a; then b; fi; ", "rm x"},
	{"elifs", "if a; then b; ", "elif a; then b; ", "fi"},
	{"nested ifs", "", "if a; then ", "rm x"},
	{"cases", "case x in ", "a) b;; ", "esac"},
	{"case patterns", "case x in ", "a|", "b) rm x;; esac"},
	{"loop words", "for i in", " a$X", "; do rm x; done"},
	{"functions", "", "f() { ls; }; ", "rm x"},
	{"negations", "", "! ", "rm x"},
	{"substitutions", "ls", " $(rm x)", ""},
	{"backquotes", "ls", " `rm x`", ""},
	{"here-documents", "", "cat <<E\nx\nE\n", "rm x"},
	{"long here-document", "cat <<E\n", "x\n", "E\nrm x"},
	{"arithmetic", "ls", " $((1))", ""},
	{"parameters", "ls", " ${x:-y}", ""},
	{"sudo", "", "sudo ", "rm x"},
	{"sudo options", "sudo", " -n", " rm x"},
	{"env assignments", "env", " A=$X", " rm x"},
	{"env -S", "", "env -S ", "rm x"},
	{"env -S text", "env -S '", "A=1 ", "rm x'"},
	{"eval", "", "eval ", "rm x"},
	{"eval text", "eval '", "A=$X ", "rm x'"},
	{"eval expansions", "eval", " \"$X\"", ""},
	{"find expressions", "find .", " -o", ""},
	{"find actions", "find .", " -exec rm {} \\;", ""},
	{"find open actions", "find .", " -exec", ""},
	{"find expansions", "find .", " \"$X\"", ""},
	{"find names", "find . -exec ls", " {}", " \\;"},
	{"xargs", "", "xargs ", "rm x"},
	{"xargs marks", "xargs -I{} ls", " a{}", ""},
	{"xargs marks in a word", "xargs -Ix ls ", "xy", ""},
	{"shell options", "sh", " -e", " -c 'rm x'"},
	{"shell arguments", "sh -c 'rm x'", " x", ""},
	{"shell text", "sh -c '", "ls x; ", "rm x'"},
	{"aliases", "alias", " a='ls -l'", ""},
	{"alias texts", "alias", " a='ls;ls'", ""},
	{"subscripts", "unset", " 'a[1]'", ""},
	{"unclosed", "rm x\nls '", "x\n", ""},
	{"unclosed after comments", "rm x\n", "ls # \\\n", "ls '"},
	{"ANSI quotes", "ls", " $'x'", ""},
	{"ANSI escapes", "ls $'", "\\x41", "'"},
}

// long returns the command of a shape that has about size bytes.
func long(head, unit, tail string, size int) string {
	return head + strings.Repeat(unit, max(0, size-len(head)-len(tail))/len(unit)) + tail
}

// longTables hold what looks far into a command.
func longTables(t testing.TB) Tables {
	return Tables{
		Allow: compileAll(t, []string{"echo **", "ls *", "npm test"}),
		Ask:   compileAll(t, []string{"* rm y **", "git push **"}),
		Deny:  compileAll(t, []string{"rm -rf **", "ls y * y", "* * q **", "curl **"}),
	}
}

// Every shape is read to its end or refused, at every size up to the limit and over it.
func TestLongCommands(t *testing.T) {
	tables := longTables(t)
	for _, s := range longCommands {
		for _, size := range []int{1 << 10, maxBytes, maxBytes + 1000} {
			got := Lex(long(s.head, s.unit, s.tail, size)).Match(tables)
			require.NotEqual(t, None, got.Outcome, s.name)
			require.NotEqual(t, lexerFailed, got.Construct, s.name)
			require.LessOrEqual(t, len(got.Segments), maxExplained, s.name)
			if size > maxBytes {
				require.Equal(t, Ask, got.Outcome, s.name)
			}
		}
	}
}

// BenchmarkLength shows that a byte costs the same in a long command as in a short one: compare the ns/byte of a shape.
func BenchmarkLength(b *testing.B) {
	tables := longTables(b)
	for _, s := range longCommands {
		for _, kib := range []int{1, 4, 16, 64} {
			command := long(s.head, s.unit, s.tail, kib<<10)
			b.Run(fmt.Sprintf("%s/%dKiB", strings.ReplaceAll(s.name, " ", "-"), kib), func(b *testing.B) {
				for b.Loop() {
					Lex(command).Match(tables)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(command)), "ns/byte")
			})
		}
	}
}
