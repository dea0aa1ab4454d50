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
}
