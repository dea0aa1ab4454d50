package blob_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/blob/blobtest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blobtest.Opener {
		m := blob.NewMemory("")
		return func(*testing.T) blob.Store { return m }
	})
}

func TestMemoryHasTheGivenIdentity(t *testing.T) {
	require.Equal(t, "mine", blob.NewMemory("mine").ID())
	require.Regexp(t, `^[0-9a-f]{32}$`, blob.NewMemory("").ID())
}

func TestMemoryIsBounded(t *testing.T) {
	m := blob.NewMemory("full")
	data := make([]byte, blob.MaxMemory)
	ref, err := m.Put(t.Context(), data)
	require.NoError(t, err)
	_, err = m.Put(t.Context(), []byte("one more"))
	var full *blob.FullError
	require.ErrorAs(t, err, &full)
	require.Equal(t, &blob.FullError{Store: "full", Max: blob.MaxMemory}, full)
	_, err = m.Put(t.Context(), data)
	require.NoError(t, err, "what is there takes no room")
	did, err := m.Delete(t.Context(), ref, distant)
	require.NoError(t, err)
	require.True(t, did)
	_, err = m.Put(t.Context(), []byte("one more"))
	require.NoError(t, err)
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	ref := blob.RefOf([]byte("x"))
	other := ref
	other.Size = 9
	require.ErrorContains(t, &blob.CorruptError{Store: "s", Ref: ref, Got: other}, `has 9 bytes, its reference says 1`)
	require.ErrorContains(t, &blob.CorruptError{Store: "s", Ref: ref, Got: blob.RefOf(nil)}, `is altered`)
	require.ErrorContains(t, &blob.NotListableError{Store: "s"}, `"s" cannot list`)
}

var distant = time.Now().AddDate(1, 0, 0)
