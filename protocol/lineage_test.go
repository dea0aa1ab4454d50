package protocol_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worktree"
)

func TestLineageIsSigned(t *testing.T) {
	ring, err := protocol.NewKeyring(protocol.GrantKey{ID: "new", Secret: []byte("0123456789abcdef")}, protocol.GrantKey{ID: "old", Secret: []byte("fedcba9876543210")})
	require.NoError(t, err)
	old, err := protocol.NewKeyring(protocol.GrantKey{ID: "old", Secret: []byte("fedcba9876543210")})
	require.NoError(t, err)
	other, err := protocol.NewKeyring(protocol.GrantKey{ID: "old", Secret: []byte("another key of 16")})
	require.NoError(t, err)
	l := protocol.Lineage{Root: "r", Parent: "p", Depth: 2, Parents: []protocol.Above{{Profile: "lead"}}}
	for _, by := range []protocol.Keyring{ring, old} {
		signed, err := by.SignLineage(l, "ns", "run")
		require.NoError(t, err)
		require.True(t, ring.VerifyLineage(signed, "ns", "run"))
		require.False(t, ring.VerifyLineage(signed, "ns", "another run"))
		require.False(t, ring.VerifyLineage(signed, "other", "run"))
		require.False(t, other.VerifyLineage(signed, "ns", "run"))
		forged := signed
		forged.Parents = []protocol.Above{{Profile: "open"}}
		require.False(t, ring.VerifyLineage(forged, "ns", "run"))
		require.True(t, protocol.Keyring{}.VerifyLineage(forged, "ns", "run"), "without a key nothing is checked")
	}
	unsigned, err := protocol.Keyring{}.SignLineage(l, "ns", "run")
	require.NoError(t, err)
	require.Equal(t, l, unsigned)
	require.False(t, ring.VerifyLineage(unsigned, "ns", "run"))
}

func TestBounds(t *testing.T) {
	all := protocol.DefaultBounds()
	require.Equal(t, all, protocol.Bounds{}.Over(all))
	require.Equal(t, protocol.Bounds{Depth: 2, Concurrent: 16, Total: 256}, protocol.Bounds{Depth: 2}.Over(all))
	require.Equal(t, protocol.Bounds{Depth: 2, Concurrent: 16, Total: 256}, protocol.Bounds{Depth: 2, Concurrent: 100, Total: 300}.Within(all), "never over those above")
	require.NoError(t, all.Validate("bounds"))
	for _, bad := range []protocol.Bounds{{Depth: -1}, {Depth: protocol.MostDepth + 1}, {Concurrent: -1}, {Concurrent: protocol.MostConcurrent + 1}, {Total: -1}, {Total: protocol.MostTotal + 1}} {
		require.True(t, fault.IsConfig(bad.Validate("bounds")), "%+v", bad)
	}
}

// Whoever asks for a private tree asks for another agent than one in a shared repository.
func TestAPrivateTreeIsAnotherAgent(t *testing.T) {
	hash := func(iso worktree.Isolation) string {
		h, err := protocol.AgentInput{Prompt: "go", AgentType: "p", Isolation: &iso}.ContentHash(nil)
		require.NoError(t, err)
		return h
	}
	shared, private := worktree.Isolation{Kind: worktree.Tree}, worktree.Isolation{Kind: worktree.Tree, Private: true}
	require.NotEqual(t, hash(shared), hash(private))
	require.Equal(t, hash(private), hash(private))
}
