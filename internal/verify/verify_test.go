package verify_test

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/protocol"
)

// keys are those with which the committed histories were signed.
func keys(t testing.TB) protocol.Keyring {
	ring, err := protocol.NewKeyring(protocol.GrantKey{ID: "k1", Secret: []byte("0123456789abcdef0123456789abcdef")})
	require.NoError(t, err)
	return ring
}

// committed are the histories that the repository keeps for replay and for followers.
func committed(t testing.TB) map[string]string {
	out := map[string]string{}
	for _, dir := range []string{"workflows", "follow"} {
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "testdata", "histories", "*.json"))
		require.NoError(t, err)
		for _, f := range files {
			out[filepath.Base(dir)+"/"+strings.TrimSuffix(filepath.Base(f), ".json")] = f
		}
	}
	require.GreaterOrEqual(t, len(out), 30)
	return out
}

func read(t testing.TB, path string) []*historypb.HistoryEvent {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	events, err := verify.Read(f)
	require.NoError(t, err)
	return events
}

// Every committed history is clean, to its end and cut off behind each of its events.
func TestCommittedHistoriesAreClean(t *testing.T) {
	for name, path := range committed(t) {
		t.Run(name, func(t *testing.T) {
			events := read(t, path)
			o := verify.Options{}
			base := filepath.Base(path)
			for n := 1; n <= len(events); n++ {
				r := verify.History(events[:n], o)
				require.Empty(t, r.Findings, "up to event %d", n)
			}
			r := verify.History(events, o)
			switch {
			case base == "before-the-guard.json":
				require.Equal(t, verify.Foreign, r.State)
			case base == "drained.json":
				require.Equal(t, verify.Ungated, r.State)
			default:
				require.Equal(t, verify.Gated, r.State)
			}
			require.Equal(t, len(events), r.Events)
			require.NotEmpty(t, r.RunID)
		})
	}
}

// signed are recordings whose grants are signed with the key of keys.
var signed = []string{"foreign-activity", "foreign-workflow", "guarded-continued"}

func TestSignatures(t *testing.T) {
	rotated, err := protocol.NewKeyring(protocol.GrantKey{ID: "k2", Secret: []byte("fedcba9876543210fedcba9876543210")})
	require.NoError(t, err)
	another, err := protocol.NewKeyring(protocol.GrantKey{ID: "k1", Secret: []byte("fedcba9876543210fedcba9876543210")})
	require.NoError(t, err)
	for _, name := range signed {
		events := record(t, name).events
		r := verify.History(events, verify.Options{Keys: keys(t), Namespace: "default"})
		require.Empty(t, r.Findings, name)
		require.NotEmpty(t, r.Calls, name)
		require.NotContains(t, strings.Join(r.Unchecked, "\n"), "signatures", name)
		for why, o := range map[string]verify.Options{
			"another namespace":  {Keys: keys(t), Namespace: "other"},
			"another workflow":   {Keys: keys(t), Namespace: "default", WorkflowID: "other"},
			"another secret":     {Keys: another, Namespace: "default"},
			"a key that is away": {Keys: rotated, Namespace: "default"},
		} {
			r := verify.History(events, o)
			require.Len(t, r.Findings, len(r.Calls), "%s, %s", name, why)
			for _, f := range r.Findings {
				require.Equal(t, verify.BadSignature, f.Kind, "%s, %s", name, why)
			}
		}
	}
	r := verify.History(record(t, "guarded-workflow").events, verify.Options{Keys: keys(t), Namespace: "default"})
	require.Equal(t, verify.BadSignature, r.Findings[0].Kind, "it was recorded without a key")
}

// The quorum of the recording has one vote that is signed and one that is not.
func TestSignedAnswers(t *testing.T) {
	alice := ed25519.NewKeyFromSeed([]byte(strings.Repeat("a", ed25519.SeedSize))).Public().(ed25519.PublicKey)
	mallory := ed25519.NewKeyFromSeed([]byte(strings.Repeat("m", ed25519.SeedSize))).Public().(ed25519.PublicKey)
	last := func(p *tape) *commonpb.Payload {
		return p.events[p.at(2, signaled)].GetWorkflowExecutionSignaledEventAttributes().Input.Payloads[0]
	}
	for name, tc := range map[string]struct {
		keys   map[string]ed25519.PublicKey
		tamper func(*tape)
		want   []verify.Kind
	}{
		"as recorded":             {map[string]ed25519.PublicKey{"alice": alice}, func(*tape) {}, nil},
		"without keys":            {nil, func(*tape) {}, nil},
		"another key":             {map[string]ed25519.PublicKey{"alice": mallory}, func(*tape) {}, []verify.Kind{verify.BadSignature}},
		"an unknown principal":    {map[string]ed25519.PublicKey{"mallory": mallory}, func(*tape) {}, []verify.Kind{verify.BadSignature}},
		"another reason":          {map[string]ed25519.PublicKey{"alice": alice}, func(p *tape) { p.payload(last(p), set("reason", "did not read it")) }, []verify.Kind{verify.BadSignature}},
		"no signature":            {map[string]ed25519.PublicKey{"alice": alice}, func(p *tape) { p.payload(last(p), func(m members) { delete(m, "signature") }) }, []verify.Kind{verify.BadSignature}},
		"admitted as unsigned":    {map[string]ed25519.PublicKey{"alice": alice}, func(p *tape) { p.result(p.at(0, allowed), func(m members) { delete(m, "signed") }) }, []verify.Kind{verify.BadSignature}},
		"over another question":   {map[string]ed25519.PublicKey{"alice": alice}, func(p *tape) { p.result(p.at(0, decide), set("runId", base)) }, []verify.Kind{verify.OtherRun, verify.VoidAnswer, verify.VoidAnswer, verify.BadSignature}},
		"bob signs, and did not":  {map[string]ed25519.PublicKey{"alice": alice, "bob": mallory}, func(*tape) {}, []verify.Kind{verify.BadSignature}},
		"the edit was not signed": {map[string]ed25519.PublicKey{"alice": alice}, func(p *tape) { p.payload(last(p), set("input", members{"text": "a"})) }, []verify.Kind{verify.BadSignature}},
	} {
		p := record(t, "quorum")
		tc.tamper(p)
		r := verify.History(p.whole(), verify.Options{Principals: tc.keys})
		var kinds []verify.Kind
		for _, f := range r.Findings {
			kinds = append(kinds, f.Kind)
		}
		require.ElementsMatch(t, tc.want, kinds, "%s: %+v", name, r.Findings)
		require.Equal(t, tc.keys == nil, strings.Contains(strings.Join(r.Unchecked, "\n"), "signatures of answers"), name)
	}
}
