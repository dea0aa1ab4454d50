package argv

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// commandSeeds adds the commands of all corpora and some generated ones.
func commandSeeds(f *testing.F, add func(r row)) {
	for _, file := range corpusFiles {
		for _, r := range readRows(f, file) {
			add(r)
		}
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		add(row{Command: generate(rng)})
		add(row{Command: generateGrammar(rng, map[string]int{})})
	}
}

// FuzzLex: whatever the text, a verdict is explained, the chain never allows, and a denied command below it is denied
// or asked about.
func FuzzLex(f *testing.F) {
	commandSeeds(f, func(r row) { f.Add(r.Command) })
	tables := Tables{Allow: everything(f), Deny: compileAll(f, []string{"rm **", "git push --force"}), Ask: compileAll(f, []string{"git push **"})}
	f.Fuzz(func(t *testing.T, command string) {
		c := Lex(command)
		require.NotEqual(t, lexerFailed, c.broken)
		got := c.Match(tables)
		require.NotEqual(t, None, got.Outcome)
		require.NotEqual(t, Allow, c.Match(Tables{Deny: tables.Deny}).Outcome)
		chain := c.Chain(tables.Deny, tables.Ask)
		require.NotEqual(t, Allow, chain.Outcome)
		requireExplained(t, got)
		requireExplained(t, chain)
		LexArgv(strings.Split(command, " ")).Match(tables)
		if strings.HasSuffix(command, `\`) {
			return
		}
		more := Lex(command + "\nrm -rf /")
		if more.broken != c.broken && refusal(command+"\nrm -rf /") != "" {
			return
		}
		require.NotEqual(t, lexerFailed, more.broken)
		require.LessOrEqual(t, more.Match(tables).Outcome, got.Outcome, "%q", command)
		require.LessOrEqual(t, more.Chain(tables.Deny, tables.Ask).Outcome, chain.Outcome, "%q", command)
	})
}

// requireExplained fails if a verdict does not follow from its segments, or they cannot be shown.
func requireExplained(t *testing.T, r Result) {
	t.Helper()
	require.NotEmpty(t, r.Segments)
	require.LessOrEqual(t, len(r.Segments), maxExplained)
	strictest := None
	for _, s := range r.Segments {
		require.Empty(t, unreadable(s.Segment))
		require.LessOrEqual(t, len(s.Segment), 4*maxShown+len(ellipsis))
		require.Equal(t, s.Table == "", s.Pattern == "", "%+v", s)
		strictest = min(strictest, outcomes[s.Verdict])
	}
	require.Equal(t, strictest, r.Outcome, "%+v", r)
	require.Equal(t, r.Table == "", r.Index < 0)
	_, err := json.Marshal(r.Segments)
	require.NoError(t, err)
}

// FuzzCompile: a pattern that compiles keeps its text, and as a deny pattern only adds, as an allow pattern allows only
// what it covers.
func FuzzCompile(f *testing.F) {
	commandSeeds(f, func(r row) {
		for _, text := range slices.Concat(r.Allow, r.Ask, r.Deny, []string{r.Command}) {
			f.Add(text, r.Command)
		}
	})
	base := compileAll(f, []string{"rm **"})
	f.Fuzz(func(t *testing.T, text, command string) {
		p, err := Compile(text)
		if err != nil {
			require.ErrorAs(t, err, new(*PatternError))
			return
		}
		require.Equal(t, text, p.String())
		require.True(t, p.rest || len(p.tokens) > 0)
		c, table := Lex(command), NewTable(p)
		more := c.Chain(NewTable(append(slices.Clone(base.patterns), p)...), Table{})
		require.LessOrEqual(t, more.Outcome, c.Chain(base, Table{}).Outcome, "deny %q", text)
		allowed := c.Match(Tables{Allow: table})
		requireExplained(t, allowed)
		if allowed.Outcome == Allow {
			// Everything that was allowed, a deny pattern of the same text denies.
			require.Equal(t, Deny, c.Match(Tables{Allow: table, Deny: table}).Outcome, "%q by %q", command, text)
		}
	})
}

// FuzzSuggest: what is suggested allows the segment, and no other one.
func FuzzSuggest(f *testing.F) {
	commandSeeds(f, func(r row) { f.Add(r.Command, "x") })
	f.Fuzz(func(t *testing.T, segment, other string) {
		text, ok := Suggest(segment)
		if !ok {
			require.Empty(t, text)
			return
		}
		p, err := Compile(text)
		require.NoError(t, err)
		require.False(t, p.rest)
		tables := Tables{Allow: NewTable(p)}
		require.Equal(t, Allow, Lex(segment).Match(tables).Outcome, "%q by %q", segment, text)
		for _, changed := range []string{other, segment + " " + other, segment + other, other + " " + segment, segment + ";" + other} {
			if c := Lex(changed); c.Match(tables).Outcome == Allow {
				for _, s := range c.segments {
					require.Equal(t, wordTexts(Lex(segment).segments[0].words), wordTexts(s.words), "%q suggested for %q allows %q", text, segment, changed)
				}
			}
		}
	})
}

func wordTexts(words []word) []word {
	out := make([]word, len(words))
	for i, w := range words {
		out[i] = word{text: w.text, dyn: w.dyn}
	}
	return out
}
