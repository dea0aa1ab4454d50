package argv

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// generated calls check with commands that can be read to their end, so that text may be put around them.
func generated(t *testing.T, check func(rng *rand.Rand, command string)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed(t), 3))
	done, reached := 0, map[string]int{}
	for i := range rounds(4000) {
		command := generateGrammar(rng, reached)
		if i%2 == 0 {
			command = generate(rng)
		}
		require.NotEqual(t, lexerFailed, Lex(command).broken, "%q", command)
		if closed(command) {
			check(rng, command)
			done++
		}
	}
	require.Greater(t, done, rounds(1000))
	requireReached(t, reached, rounds(20))
}

// closed reports whether a line may follow command without becoming part of it.
func closed(command string) bool {
	return Lex(command).broken == "" && !strings.HasSuffix(command, `\`) && !strings.Contains(command, "<<")
}

func someTables(t testing.TB) Tables {
	t.Helper()
	return Tables{
		Allow: compileAll(t, []string{"a **", "npm *", "git", "b '*' **", "! a **", "A=1 a **", "f x", "echo **"}),
		Ask:   compileAll(t, []string{"git push **", "b --", "a rm"}),
		Deny:  compileAll(t, []string{"rm **", "b -f **", "npm x"}),
	}
}

func TestAddingASegmentNeverWeakens(t *testing.T) {
	tables := someTables(t)
	generated(t, func(rng *rand.Rand, command string) {
		other := generate(rng)
		if !closed(other) {
			return
		}
		both := Lex(command + "\n" + other)
		if both.broken != "" {
			return // both together are over a limit
		}
		want := min(Lex(command).Match(tables).Outcome, Lex(other).Match(tables).Outcome)
		require.Equal(t, want, both.Match(tables).Outcome, "%q and %q", command, other)
		chain := min(Lex(command).Chain(tables.Deny, tables.Ask).Outcome, Lex(other).Chain(tables.Deny, tables.Ask).Outcome)
		require.Equal(t, chain, both.Chain(tables.Deny, tables.Ask).Outcome, "%q and %q", command, other)
	})
}

func TestFewerAllowsAndMoreDeniesNeverWeaken(t *testing.T) {
	full := someTables(t)
	generated(t, func(rng *rand.Rand, command string) {
		c := Lex(command)
		less := full
		less.Allow = NewTable(full.Allow.patterns[1+rng.IntN(full.Allow.Len()):]...)
		require.LessOrEqual(t, c.Match(less).Outcome, c.Match(full).Outcome, "%q without an allow", command)
		less.Allow = Table{}
		require.NotEqual(t, Allow, c.Match(less).Outcome, "%q with an empty allow table", command)
		fewer := full
		fewer.Deny = NewTable(full.Deny.patterns[:rng.IntN(full.Deny.Len())]...)
		require.LessOrEqual(t, c.Match(full).Outcome, c.Match(fewer).Outcome, "%q with another deny", command)
		require.LessOrEqual(t, c.Chain(full.Deny, full.Ask).Outcome, c.Chain(fewer.Deny, full.Ask).Outcome, "%q with another deny", command)
	})
}

func TestOrderOfPatternsDoesNotMatter(t *testing.T) {
	tables := someTables(t)
	generated(t, func(rng *rand.Rand, command string) {
		other := Tables{Allow: shuffled(rng, tables.Allow), Ask: shuffled(rng, tables.Ask), Deny: shuffled(rng, tables.Deny)}
		c := Lex(command)
		require.Equal(t, c.Match(tables).Outcome, c.Match(other).Outcome, "%q", command)
	})
}

func shuffled(rng *rand.Rand, t Table) Table {
	list := slices.Clone(t.patterns)
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return NewTable(list...)
}

func TestBlanksAndCommentsDoNotMatter(t *testing.T) {
	tables := someTables(t)
	generated(t, func(_ *rand.Rand, command string) {
		want := Lex(command).Match(tables).Outcome
		for _, around := range [][2]string{{"  \t", "  "}, {"", " # note"}, {"# note\n", "\n# note\n"}, {"\n\n", "\n\n"}, {"# \\\n", " #\\\n"}, {strings.Repeat(" ", 1020), ""},
			{strings.Repeat("\n", 1023), "\n"}} {
			require.Equal(t, want, Lex(around[0]+command+around[1]).Match(tables).Outcome, "%q between %q", command, around)
		}
	})
}

func TestSubshellNeverWeakensAndNeverAllows(t *testing.T) {
	tables := someTables(t)
	generated(t, func(_ *rand.Rand, command string) {
		inner, outer := Lex(command), Lex("( "+command+"\n)")
		if outer.broken != "" {
			require.Equal(t, Ask, outer.Match(tables).Outcome, "%q in a subshell", command)
			return // the parser refuses more inside parentheses
		}
		got := outer.Match(tables).Outcome
		require.LessOrEqual(t, got, min(Ask, inner.Match(tables).Outcome), "%q in a subshell", command)
		require.LessOrEqual(t, outer.Chain(tables.Deny, tables.Ask).Outcome, inner.Chain(tables.Deny, tables.Ask).Outcome, "%q in a subshell", command)
	})
}

func TestQuotingDoesNotMatter(t *testing.T) {
	tables := someTables(t)
	rng := rand.New(rand.NewPCG(seed(t), 4))
	for range rounds(3000) {
		args := randomArgs(rng)
		plain := quoteAll(args)
		var odd []string
		for _, a := range args {
			odd = append(odd, quoteAnyhow(rng, a))
		}
		variant := strings.Join(odd, " ")
		if refusal(variant) != "" {
			continue // it holds a dollar before a line continuation
		}
		want := Lex(plain).Match(tables)
		got := Lex(variant).Match(tables)
		require.Equal(t, want.Outcome, got.Outcome, "%q and %q", plain, variant)
		require.Equal(t, want.Table, got.Table, "%q and %q", plain, variant)
		require.Equal(t, want.Index, got.Index, "%q and %q", plain, variant)
		require.Equal(t, Lex(plain).Chain(tables.Deny, tables.Ask).Outcome, LexArgv(args).Chain(tables.Deny, tables.Ask).Outcome, "%q", args)
	}
}

func randomArgs(rng *rand.Rand) []string {
	args := []string{programs[rng.IntN(6)]}
	for range rng.IntN(4) {
		args = append(args, pickOne(rng, words))
	}
	return args
}

func TestSuggestionAllowsItsOwnSegmentOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 5))
	made := 0
	for range rounds(2000) {
		args, others := randomArgs(rng), randomArgs(rng)
		segment := quoteAll(args)
		text, ok := Suggest(segment)
		require.True(t, ok, "%q", segment)
		made++
		p, err := Compile(text)
		require.NoError(t, err)
		tables := Tables{Allow: NewTable(p)}
		require.Equal(t, Allow, Lex(segment).Match(tables).Outcome, "%q by %q", segment, text)
		if !slices.Equal(args, others) {
			require.Equal(t, Ask, Lex(quoteAll(others)).Match(tables).Outcome, "%q by %q", others, text)
		}
	}
	require.NotZero(t, made)
}

// The generated text need not be closed here: what is suggested for a segment of a result is safe whatever it is.
func TestSuggestionOfAnything(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 6))
	for range rounds(3000) {
		for _, s := range Lex(generateGrammar(rng, map[string]int{})).Match(Tables{}).Segments {
			text, ok := Suggest(s.Segment)
			if !ok {
				continue
			}
			p, err := Compile(text)
			require.NoError(t, err, "%q", s.Segment)
			require.False(t, p.rest)
			require.Equal(t, Allow, Lex(s.Segment).Match(Tables{Allow: NewTable(p)}).Outcome)
		}
	}
}

func BenchmarkLex(b *testing.B) {
	for b.Loop() {
		Lex("cd web && npm ci && npm test -- --grep 'a b' 2>&1 | head -50")
	}
}

func BenchmarkMatch(b *testing.B) {
	c, tables := Lex("cd web && npm ci && npm test -- --grep 'a b' 2>&1 | head -50"), someTables(b)
	for b.Loop() {
		c.Match(tables)
	}
}
