package argv

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// row is one case of a corpus file in testdata.
type row struct {
	ID       string   `json:"id"`
	Mode     string   `json:"mode"` // "chain": deny and ask tables only
	Command  string   `json:"command"`
	Allow    []string `json:"allow"`
	Ask      []string `json:"ask"`
	Deny     []string `json:"deny"`
	Expected string   `json:"expected"`
	Match    string   `json:"match"` // "atLeast": a stricter verdict is right too
	Why      string   `json:"why"`
}

func readRows(t testing.TB, name string) []row {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer f.Close()
	var rows []row
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r row
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		rows = append(rows, r)
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, rows)
	return rows
}

func compileAll(t testing.TB, texts []string) Table {
	t.Helper()
	return NewTable(patternsOf(t, texts)...)
}

func patternsOf(t testing.TB, texts []string) []Pattern {
	t.Helper()
	patterns := make([]Pattern, 0, len(texts))
	for _, text := range texts {
		p, err := Compile(text)
		require.NoError(t, err)
		patterns = append(patterns, p)
	}
	return patterns
}

func (r row) tables(t testing.TB) Tables {
	t.Helper()
	return Tables{Allow: compileAll(t, r.Allow), Ask: compileAll(t, r.Ask), Deny: compileAll(t, r.Deny)}
}

var outcomes = map[string]Outcome{"deny": Deny, "ask": Ask, "allow": Allow, "none": None}

// stricterRows differ from the corpus on purpose, on the strict side; each names its reason.
var stricterRows = map[string]string{}

func checkRow(t *testing.T, r row, got Result) {
	t.Helper()
	want, known := outcomes[r.Expected]
	require.True(t, known, "%s: unknown verdict %q", r.ID, r.Expected)
	_, stricter := stricterRows[r.ID]
	if r.Match == "atLeast" || stricter {
		require.LessOrEqual(t, got.Outcome, want, "%s %q: %s\n%+v", r.ID, r.Command, r.Why, got)
	} else {
		require.Equal(t, want.String(), got.Outcome.String(), "%s %q: %s\n%+v", r.ID, r.Command, r.Why, got)
	}
	if stricter {
		require.NotEqual(t, want, got.Outcome, "%s is listed as stricter and is not", r.ID)
	}
}

func TestCorpus(t *testing.T) {
	for _, file := range corpusFiles {
		for _, r := range readRows(t, file) {
			t.Run(r.ID, func(t *testing.T) { checkRow(t, r, r.judge(t)) })
		}
	}
}

// judge returns what the package says of a row in its mode.
func (r row) judge(t testing.TB) Result {
	tables := r.tables(t)
	if r.Mode == "chain" {
		return Lex(r.Command).Chain(tables.Deny, tables.Ask)
	}
	return Lex(r.Command).Match(tables)
}

// corpusFiles are the files of testdata: agreed judgement, a reference matcher, the chain, and siblings of all of these.
var corpusFiles = []string{"corpus.jsonl", "reference.jsonl", "chain.jsonl", "more.jsonl"}

// The parser reads its input in pieces of 1 KiB; where a piece ends must not matter.
func TestCorpusAcrossReads(t *testing.T) {
	for _, r := range readRows(t, "corpus.jsonl") {
		if len(r.Command) > 200 {
			continue
		}
		tables := r.tables(t)
		want := Lex(r.Command).Match(tables).Outcome
		for i := range len(r.Command) + 1 {
			padded := strings.Repeat(" ", 1024-i) + r.Command
			require.Equal(t, want, Lex(padded).Match(tables).Outcome, "%s %q after %d blanks", r.ID, r.Command, 1024-i)
		}
	}
}
