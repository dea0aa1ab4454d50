package approval_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/canonjson"
)

func TestContentKeyVectors(t *testing.T) {
	f, err := os.Open("testdata/approval_key.jsonl")
	require.NoError(t, err)
	defer f.Close()
	rows := 0
	for sc := bufio.NewScanner(f); sc.Scan(); rows++ {
		var row struct {
			ID, ToolName, Canonical, Key string
			Input                        json.RawMessage
		}
		require.NoError(t, json.Unmarshal(sc.Bytes(), &row))
		got, err := approval.ContentKey(row.ToolName, row.Input)
		require.NoError(t, err, row.ID)
		require.Equal(t, row.Key, got, row.ID)
		require.Equal(t, row.Key, canonjson.SHA256([]byte(row.Canonical)), row.ID)
	}
	require.Equal(t, 11, rows)
}

// The keys of more_keys.jsonl were computed by another program, from the words of RFC 8785 alone.
func TestMoreContentKeys(t *testing.T) {
	f, err := os.Open("testdata/more_keys.jsonl")
	require.NoError(t, err)
	defer f.Close()
	rows := 0
	for sc := bufio.NewScanner(f); sc.Scan(); rows++ {
		var row struct{ ID, ToolName, Raw, Key string }
		require.NoError(t, json.Unmarshal(sc.Bytes(), &row))
		got, err := approval.ContentKey(row.ToolName, json.RawMessage(row.Raw))
		require.NoError(t, err, row.ID)
		require.Equal(t, row.Key, got, "%s: %s", row.ID, row.Raw)
	}
	require.Equal(t, 40, rows)
}

// An id beyond the integers of a float is approved as it is, and never for its neighbour.
func TestLargeNumbersHaveKeysOfTheirOwn(t *testing.T) {
	keys := map[string]string{}
	for _, number := range []string{
		"9007199254740992", "9007199254740993", "9007199254740994",
		"123456789012345683968", "123456789012345680000", "123456789012345680001",
		"0.1", "0.10000000000000001", "1e400", "1e401", "1e-400", "0", "18446744073709551615", "18446744073709551616",
	} {
		key, err := approval.ContentKey("pay", json.RawMessage(`{"id":`+number+`}`))
		require.NoError(t, err)
		require.Empty(t, keys[key], "%s has the key of %s", number, keys[key])
		keys[key] = number
	}
}

func TestContentKey(t *testing.T) {
	key := func(name, input string) string {
		k, err := approval.ContentKey(name, json.RawMessage(input))
		require.NoError(t, err)
		return k
	}
	require.Equal(t, key("run", "null"), key("run", ""), "no input is null")
	require.Equal(t, key("run", `{"a":1,"b":2}`), key("run", ` {"b":2, "a":1.0} `))
	require.NotEqual(t, key("run", `{"n":9007199254740993}`), key("run", `{"n":9007199254740992}`), "numbers keep their digits")
	for _, bad := range []string{`{`, `{"a":1,"a":2}`, `"\ud800"`} {
		_, err := approval.ContentKey("run", json.RawMessage(bad))
		require.ErrorContains(t, err, `content key of "run"`, bad)
	}
}

// open puts a question whose content key is given and returns its key.
func open(l *approval.Ledger, tool, contentKey string) string {
	return l.Open(approval.Approval{Tool: tool, Seal: approval.Seal{ContentKey: contentKey}}).Key
}

func TestKeysAreShortAndUnique(t *testing.T) {
	a := strings.Repeat("a", 64)
	ab := strings.Repeat("a", 8) + strings.Repeat("b", 56)
	aab := strings.Repeat("a", 12) + strings.Repeat("b", 52)
	l := approval.NewLedger()
	require.Equal(t, "run-aaaaaaaa", open(l, "run", a))
	require.Equal(t, "run-aaaaaaaa.2", open(l, "run", a), "the second question about the same call")
	require.Equal(t, "run-aaaaaaaabbbb", open(l, "run", ab), "longer where it would clash")
	require.Equal(t, "run-aaaaaaaaaaaa", open(l, "run", aab))
	require.Equal(t, "run-aaaaaaaaaaaa.2", open(l, "run", aab))
	require.Equal(t, "run-aaaaaaaa.3", open(l, "run", a))
	require.Equal(t, "look-aaaaaaaa", open(l, "look", a), "another tool has keys of its own")
	l.Close(approval.Closed{Key: "run-aaaaaaaa", How: approval.Denied})
	require.Equal(t, "run-aaaaaaaa.4", open(l, "run", a), "a key is never given twice")
	require.Equal(t, "run-abc", open(l, "run", "abc"), "what a worker recorded never panics in a workflow")
	require.Equal(t, "run-.2", open(l, "run", open(l, "run", "")[4:]), "not even nothing")
}

// A run that the server begins anew gives other keys than the run before, and the same ones when it replays.
func TestInRun(t *testing.T) {
	require.Equal(t, approval.InRun("c", "run"), approval.InRun("c", "run"))
	require.NotEqual(t, approval.InRun("c", "run"), approval.InRun("c", "other"))
	require.NotEqual(t, approval.InRun("c", "run"), approval.InRun("d", "run"))
	require.Len(t, approval.InRun("c", "run"), 64)
}
