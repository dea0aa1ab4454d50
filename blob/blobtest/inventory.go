package blobtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/blob"
)

// entries lists a store by hash.
func entries(ctx context.Context, s blob.Inventory) (map[string]blob.Entry, error) {
	out := map[string]blob.Entry{}
	for e, err := range s.List(ctx) {
		if err != nil {
			return nil, err
		}
		if _, twice := out[e.Ref.SHA256]; twice {
			return nil, fmt.Errorf("%s is listed twice", e.Ref.SHA256)
		}
		out[e.Ref.SHA256] = e
	}
	return out, nil
}

// A clock of the store may differ from the one here, but not by a day.
const clocks = 24 * time.Hour

func listed(t *testing.T, p Place, s blob.Inventory) {
	got, err := entries(t.Context(), s)
	require.NoError(t, err)
	require.Empty(t, got)
	want := map[string]int64{}
	for n := range 20 {
		for range 2 {
			ref, err := s.Put(t.Context(), make([]byte, n))
			require.NoError(t, err)
			want[ref.SHA256] = ref.Size
		}
	}
	got, err = entries(t.Context(), p.Open(t).(blob.Inventory))
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for sum, e := range got {
		require.Equal(t, want[sum], e.Ref.Size)
		require.NoError(t, e.Ref.Validate())
		require.WithinDuration(t, time.Now(), e.Time, clocks)
		_, err := s.Get(t.Context(), e.Ref)
		require.NoError(t, err, "what is listed can be read")
	}
	// Whoever has seen enough may stop.
	s.List(t.Context())(func(blob.Entry, error) bool { return false })
}

func deleted(t *testing.T, p Place, s blob.Inventory) {
	ref, err := s.Put(t.Context(), []byte("gone"))
	require.NoError(t, err)
	other, err := s.Put(t.Context(), []byte("stays"))
	require.NoError(t, err)

	did, err := s.Delete(t.Context(), ref, time.Now().Add(-clocks))
	require.NoError(t, err)
	require.False(t, did, "it is younger")
	_, err = s.Get(t.Context(), ref)
	require.NoError(t, err)

	did, err = p.Open(t).(blob.Inventory).Delete(t.Context(), ref, time.Now().Add(clocks))
	require.NoError(t, err)
	require.True(t, did)
	_, err = s.Get(t.Context(), ref)
	var missing *blob.NotFoundError
	require.ErrorAs(t, err, &missing)
	did, err = s.Delete(t.Context(), ref, time.Now().Add(clocks))
	require.NoError(t, err, "what is not there is no error")
	require.False(t, did)

	got, err := entries(t.Context(), s)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Contains(t, got, other.SHA256)
	again, err := s.Put(t.Context(), []byte("gone"))
	require.NoError(t, err)
	_, err = s.Get(t.Context(), again)
	require.NoError(t, err)
}

func refreshed(t *testing.T, p Place, s blob.Inventory) {
	if p.Backdate == nil {
		t.Skip("blobs of the place cannot be made old")
	}
	const age = 30 * clocks
	ref, err := s.Put(t.Context(), []byte("old"))
	require.NoError(t, err)
	p.Backdate(t, ref, time.Now().Add(-age))
	got, err := entries(t.Context(), s)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(-age), got[ref.SHA256].Time, clocks)

	_, err = p.Open(t).Put(t.Context(), []byte("old"))
	require.NoError(t, err)
	did, err := s.Delete(t.Context(), ref, time.Now().Add(-age/2))
	require.NoError(t, err)
	require.False(t, did, "somebody needs it again")

	p.Backdate(t, ref, time.Now().Add(-age))
	did, err = s.Delete(t.Context(), ref, time.Now().Add(-age/2))
	require.NoError(t, err)
	require.True(t, did)
}

// rivals stores old bytes again while they are deleted. Whoever comes first, they are there afterwards.
func rivals(t *testing.T, p Place, s blob.Inventory) {
	if p.Backdate == nil {
		t.Skip("blobs of the place cannot be made old")
	}
	const age = 30 * clocks
	data := []byte("wanted")
	other := p.Open(t)
	for range 60 {
		ref, err := s.Put(t.Context(), data)
		require.NoError(t, err)
		p.Backdate(t, ref, time.Now().Add(-age))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				_, err := s.Delete(t.Context(), ref, time.Now().Add(-age/2))
				assert.NoError(t, err)
			})
		}
		wg.Go(func() {
			_, err := other.Put(t.Context(), data)
			assert.NoError(t, err)
		})
		wg.Wait()
		got, err := s.Get(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, data, got)
	}
}
