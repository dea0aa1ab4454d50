package argv

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The walks below are what a table answers without its index.

func walkFind(t Table, views []view, may bool) int {
	for i := range t.patterns {
		for j := range views {
			if p, v := &t.patterns[i], &views[j]; !may && holds(p, v) || may && mayHold(p, v) {
				return i
			}
		}
	}
	return -1
}

func walkCover(t Table, words []word) int {
	for i := range t.patterns {
		if covers(&t.patterns[i], words) {
			return i
		}
	}
	return -1
}

// requireSameAsWalk compares a table with the plain walk over its patterns, for each segment of c.
func requireSameAsWalk(t *testing.T, table Table, c Command, command string) (found int) {
	t.Helper()
	for _, s := range c.segments {
		for _, may := range []bool{false, true} {
			want := walkFind(table, s.views, may)
			require.Equal(t, want, table.find(s.views, may), "%q in %q", s.text, command)
			if want >= 0 {
				found++
			}
		}
		want := walkCover(table, s.words)
		require.Equal(t, want, table.cover(s.words), "%q in %q", s.text, command)
		if want >= 0 {
			found++
		}
	}
	return found
}

var tableTexts = []string{"rm x **", "a **", "$X **", "'$X' *", "* x", "rm **", "A=1 a", "! a **", "git", "**", "''", "r{m,} x", "b '*' **", "* * rm", "time rm **", "'*' x", "curl **"}

func TestTableAnswersLikeAWalk(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 11))
	found := 0
	check := func(command string) {
		patterns := append(patternsOf(t, tableTexts), Pattern{})
		rng.Shuffle(len(patterns), func(i, j int) { patterns[i], patterns[j] = patterns[j], patterns[i] })
		found += requireSameAsWalk(t, NewTable(patterns[:rng.IntN(len(patterns)+1)]...), Lex(command), command)
	}
	for range rounds(3000) {
		check(generate(rng))
		check(generateGrammar(rng, map[string]int{}))
		check(generateWrapped(rng, 3))
	}
	for _, file := range corpusFiles {
		for _, r := range readRows(t, file) {
			check(r.Command)
			for _, texts := range [][]string{r.Allow, r.Ask, r.Deny} {
				found += requireSameAsWalk(t, compileAll(t, texts), Lex(r.Command), r.Command)
			}
		}
	}
	require.Greater(t, found, 1000)
}

func TestTableOwnsItsPatterns(t *testing.T) {
	patterns := patternsOf(t, []string{"rm **", "a"})
	table := NewTable(patterns...)
	patterns[0] = Pattern{}
	require.Equal(t, Deny, Lex("rm x").Chain(table, Table{}).Outcome)
	require.Equal(t, 2, table.Len())
	require.Zero(t, Table{}.Len())
}

// BenchmarkTable shows that patterns which cannot match cost nothing.
func BenchmarkTable(b *testing.B) {
	for _, n := range []int{20, 1000} {
		for name, c := range map[string]Command{"plain": Lex("cd web && npm test"), "expansion": Lex("cd $W && npm test *")} {
			texts := make([]string, n)
			for i := range texts {
				texts[i] = fmt.Sprintf("program%d run **", i)
			}
			table := compileAll(b, texts)
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c.Chain(table, table)
				}
			})
		}
	}
}

// BenchmarkTwoSegments is a whole verdict on a plain command.
func BenchmarkTwoSegments(b *testing.B) {
	deny, ask := compileAll(b, []string{"rm -rf **", "git push --force **", "curl **"}), compileAll(b, []string{"git push **", "npm publish", "docker **"})
	b.ReportAllocs()
	for b.Loop() {
		Lex("cd web && npm test").Chain(deny, ask)
	}
}
