package argv

import (
	"math/rand/v2"
	"strings"
)

// generate makes up a command: mostly well-formed segments under random quoting, with random fragments of shell
// grammar thrown in.
func generate(rng *rand.Rand) string {
	var b strings.Builder
	for i := range 1 + rng.IntN(3) {
		if i > 0 {
			b.WriteString(pickOne(rng, separators))
		}
		if rng.IntN(6) == 0 {
			b.WriteString(pickOne(rng, openers))
			b.WriteString(simpleCommand(rng))
			b.WriteString(pickOne(rng, closers))
			continue
		}
		b.WriteString(simpleCommand(rng))
	}
	text := b.String()
	for rng.IntN(3) == 0 {
		at := rng.IntN(len(text) + 1)
		text = text[:at] + pickOne(rng, fragments) + text[at:]
	}
	return text
}

func pickOne(rng *rand.Rand, from []string) string { return from[rng.IntN(len(from))] }

var (
	separators = []string{"; ", ";", " && ", "&&", " || ", "||", " | ", "|", " & ", "&", "\n", "\n\n", " |& ", " # note\n", " # \\\n", " #\\\n",
		"\\\n; ", " \\\n&& ", "&&\\\n", "|\\\n", "; # x\n", "\n#\\\n", "\n# \\\n# \\\n"}
	openers = []string{"(", "{ ", "( ", "if ", "if a; then ", "while f; do ", "until a; do ", "for i in 1 2; do ", "case x in x) ",
		"g() { ", "! ", "time ", "time -p ", "! time ", "time ! ", "eval ", "command ", "exec ", "sudo ", "env ", "env A=1 ", "timeout 5 ",
		"nohup ", "nice -n 5 ", "$(", "`", "\"$(", "a <(", "a <<E\n", "[[ x ]] && ", "trap '", "sh -c '", "eval '", "alias a='", "function g { ",
		"coproc ", "select i in 1; do ", "a $((1)) ", "A=1 ", "A= ", "A=$X ", "A=1 A=1 ", "A+=1 ", "A=(1) ", "a[1]=2 ", "export A=1; ", "find . -exec "}
	closers = []string{"", ")", " }", "; }", " ; fi", "; done", ";; esac", "; g", "`", "\"", ")\"", "\nE\n", "' EXIT", "'", "; }; g", "\n)", " \\;"}
	words   = []string{"a", "b", "rm", "x", "-f", "--", "1", "y z", "*", "x*", "?", "[x]", "it's", "$", "#", "a#b", "", "\\", "\\n", "\"", "!", "{}", "{", "}",
		"=", "A=1", "if", "done", "~", ";", "&", "|", "`", "$X", "$(b)", "é", "Á日", "-n", "+", "{a,b}", "'", "\n", "a\\", "time", "then", "[", "]", "in"}
	raw = []string{"$X", "\"$X\"", "$Y", "${Y}", "*", "x*", "x.g?", "[x]*", "{a,b}", "{rm,x}", "~", "~/x", "\"$@\"", "$E", "a$X", "$X$Y", "'a'\"b\"c", "\\a",
		"$'rm'", "$\"rm\"", "${X:-b}", "$((1))", "{1..2}", "r{m,}", "$E*", "\"\"", "''", "@(a)", "a\\\nb", "\"a\\\nb\"", "'a\\\nb'", "\\\n", "$*", "\"$*\"", "$#",
		"\\\\", "\"\\\\\"", "\"\\n\"", "$", "\"$\"", "a=$X", "{$X,b}", "*$X", "$E\"\""}
	redirections = []string{" >/dev/null", " 2>&1", " 2>/dev/null", " >f", " <x.go", " >&2", " &>f", " &>/dev/null", " <<<x", " 3>&1", " 10>&1", " >|/dev/null",
		" 2\\\n>/dev/null", " <>/dev/null", " >&-", " {v}>f", " 1>&2", " >>f", " >& f"}
	fragments = []string{";", "&", "|", "&&", "||", "\n", " ", "\t", "(", ")", "{", "}", "'", "\"", "`", "\\", "\\\n", "$", "#", " #", "!", "=", "<", ">", "<<", "*", "?", "[",
		"]", "~", "$(", "${", "$'", "$\"", ";;", ">&", "&>", "<(", "if ", "then ", "fi ", "do ", "done ", "time ", "! ", "[[ ", " ]]", "((", "))", "A=1 ", "+", "@(", "\\;",
		"$\\\n", "-", "--", ",", "..", "in ", "esac", "function ", "coproc ", "export ", "declare ", "eval ", "command "}
)

func simpleCommand(rng *rand.Rand) string {
	var b strings.Builder
	b.WriteString(quoteAnyhow(rng, programs[rng.IntN(6)]))
	for range rng.IntN(4) {
		b.WriteString(pickOne(rng, []string{" ", " ", " ", "  ", "\t", " \\\n", "\\\n "}))
		if rng.IntN(4) == 0 {
			b.WriteString(pickOne(rng, raw))
		} else {
			b.WriteString(quoteAnyhow(rng, pickOne(rng, words)))
		}
	}
	if rng.IntN(6) == 0 {
		b.WriteString(pickOne(rng, redirections))
	}
	if rng.IntN(12) == 0 {
		return pickOne(rng, redirections) + " " + b.String()
	}
	return b.String()
}

// quoteAnyhow writes one of the many shell words that are exactly text.
func quoteAnyhow(rng *rand.Rand, text string) string {
	if rng.IntN(2) == 0 {
		return quote(text)
	}
	if text == "" {
		return pickOne(rng, []string{"''", `""`, `""''`})
	}
	var b strings.Builder
	for _, r := range text {
		c := string(r)
		switch rng.IntN(6) {
		case 0:
			b.WriteString(quote(c))
		case 1:
			b.WriteString(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(c) + `"`)
		case 2:
			b.WriteString("''" + quote(c))
		case 3:
			if r != '\n' {
				b.WriteString(`\` + c)
			} else {
				b.WriteString("'\n'")
			}
		case 4:
			b.WriteString("\\\n" + quote(c))
		default:
			b.WriteString(`""` + quote(c))
		}
	}
	return b.String()
}

// wrapperHeads stand in front of another command.
var wrapperHeads = []string{"env", "env A=1", "env -u A B=2", "env -i PATH=\"$PATH\" OUT=\"$OUT\"", "env --unset=A", "env -", "env -S 'nice a'", "env -vS'A=1 a'", "env --",
	"timeout 5", "timeout -s KILL -k 1 5", "timeout --signal=KILL 5", "timeout --foreground 5s", "nohup", "nohup --", "nice", "nice -n 5", "nice -5", "nice --adjustment=5",
	"nice -n5 --", "xargs", "xargs -n 1", "xargs -n1 -P2", "xargs -I{}", "xargs -I % ", "xargs -i", "xargs -r", "xargs -0", "xargs -d y", "xargs -L1 --", "xargs --replace=Q",
	"xargs --max-args=1", "find . -name x.go -exec", "find x.go -execdir", "find . -maxdepth 0 -exec", "command", "command -p", "builtin", "exec", "exec -a q", "eval", "A=1", "! ", "time",
	"time -p", "time --", "$X", "\"$Y\"", "n?ce", "{nice,a}", "n$E\"ice\"", "$'nice'", "$'env' $'-i'"}

// generateWrapped makes up a command that runs another behind wrappers, at most depth of them.
func generateWrapped(rng *rand.Rand, depth int) string {
	if depth == 0 || rng.IntN(5) == 0 {
		return simpleCommand(rng)
	}
	inner := generateWrapped(rng, depth-1)
	switch rng.IntN(6) {
	case 0:
		return pickOne(rng, []string{"sh -c ", "sh -ec ", "sh -o errexit -c ", "sh -c -e ", "sh +e -c ", "sh -c -- ", "sh -oc errexit "}) + quoteAnyhow(rng, inner) +
			pickOne(rng, []string{"", " x", " x rm", " \"$X\""})
	case 1:
		return pickOne(rng, []string{"eval ", "trap -- ", "trap "}) + quoteAnyhow(rng, inner) + " EXIT"
	case 2:
		return "xargs sh -c " + quoteAnyhow(rng, inner+" \"$@\"") + " x"
	default:
		head := pickOne(rng, wrapperHeads)
		if strings.HasPrefix(head, "find") {
			return head + " " + inner + pickOne(rng, []string{" {} \\;", " \\;", " {} +", " {} ';' -exec a {} \\;"})
		}
		return head + " " + inner
	}
}
