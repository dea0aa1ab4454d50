package approval

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func opened(l *Ledger, toolName, content string) string {
	key, err := ContentKey(toolName, json.RawMessage(content))
	if err != nil {
		panic(err)
	}
	return l.Open(Approval{Tool: toolName, Seal: Seal{ContentKey: key}}).Key
}

// The next run gives no key that the run before has given, whatever travelled as JSON between them.
func TestCarriedKeysAreNeverGivenAgain(t *testing.T) {
	first := NewLedger()
	a, a2, b := opened(first, "pay", `{"n":1}`), opened(first, "pay", `{"n":1}`), opened(first, "pay", `{"n":2}`)
	require.Equal(t, a+".2", a2)
	first.Close(Closed{Key: a, How: Abandoned, At: time.Unix(1, 0)})

	raw, err := json.Marshal(first.Carry())
	require.NoError(t, err)
	var c Carried
	require.NoError(t, json.Unmarshal(raw, &c))
	next := NewLedger()
	next.Restore(c)

	require.Equal(t, a+".3", opened(next, "pay", `{"n":1}`))
	require.Equal(t, b+".2", opened(next, "pay", `{"n":2}`))
	require.EqualError(t, next.Check(a), `approval "`+a+`": already abandoned`)
	require.EqualError(t, next.Check(a2), `approval "`+a2+`": no such question is pending`)
	require.Empty(t, next.List().Closed, "the story of the run before is in its own history")

	again := NewLedger()
	again.Restore(next.Carry())
	require.Equal(t, a+".4", opened(again, "pay", `{"n":1}`))
}

func TestCarriedIsBounded(t *testing.T) {
	l := NewLedger()
	var keys []string
	for i := range 3 * carriedKeys {
		keys = append(keys, opened(l, "pay", fmt.Sprintf(`{"n":%d}`, i)))
		l.Close(Closed{Key: keys[i], How: Denied})
	}
	c := l.Carry()
	require.Len(t, c.Issued, carriedKeys)
	require.Equal(t, keys[len(keys)-1], c.Issued[carriedKeys-1].Stem, "the newest stay")
	require.Len(t, c.Closed, carriedClosed)
	raw, err := json.Marshal(c)
	require.NoError(t, err)
	require.Less(t, len(raw), 128<<10)
}

func TestRestoreLeavesOutWhatItCannotUse(t *testing.T) {
	l := NewLedger()
	l.Restore(Carried{Issued: []Issued{{}, {Stem: "x", Count: -1}, {Stem: "x", Count: 2}, {Stem: "x", Count: 9}}, Closed: []CarriedClose{{}, {Key: "x"}}})
	require.Equal(t, []Issued{{Stem: "x", Count: 2}}, l.issued)
	require.Empty(t, l.done)
}
