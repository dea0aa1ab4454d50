package blobtest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/blob"
)

// Opener opens one place; every call opens the same place again, as another process would.
type Opener func(t *testing.T) blob.Store

// Run checks a driver. New is called once for each subtest and returns the Opener of a new, empty place.
func Run(t *testing.T, New func(t *testing.T) Opener) {
	t.Helper()
	for _, c := range []struct {
		name  string
		check func(t *testing.T, open Opener)
	}{
		{"bytes come back", roundTrip},
		{"equal bytes are one blob", equalBytes},
		{"the caller keeps its slice", ownSlice},
		{"missing bytes are a NotFoundError", notFound},
		{"a malformed reference is an InvalidRefError", invalidRef},
		{"another size is another blob", otherSize},
		{"identity and bytes outlive the handle", reopen},
		{"a new place has a new identity", func(t *testing.T, open Opener) { identity(t, open, New(t)) }},
		{"concurrent use", concurrent},
		{"a cancelled context is an error", cancelled},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(t, New(t)) })
	}
}

func roundTrip(t *testing.T, open Opener) {
	s := open(t)
	for _, data := range [][]byte{{}, []byte("a"), {0, 0xff, '\n'}, bytes.Repeat([]byte("0123456789abcdef"), 1<<18)} {
		ref, err := s.Put(t.Context(), data)
		require.NoError(t, err)
		require.Equal(t, blob.RefOf(data), ref)
		got, err := s.Get(t.Context(), ref)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got), "%d bytes came back as %d others", len(data), len(got))
	}
}

func equalBytes(t *testing.T, open Opener) {
	s := open(t)
	one, err := s.Put(t.Context(), []byte("same"))
	require.NoError(t, err)
	two, err := s.Put(t.Context(), []byte("same"))
	require.NoError(t, err)
	require.Equal(t, one, two)
}

func ownSlice(t *testing.T, open Opener) {
	s := open(t)
	data := []byte("before")
	ref, err := s.Put(t.Context(), data)
	require.NoError(t, err)
	copy(data, "AFTER!")
	got, err := s.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, "before", string(got))
	copy(got, "AFTER!")
	again, err := s.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, "before", string(again))
}

func notFound(t *testing.T, open Opener) {
	s := open(t)
	ref := blob.RefOf([]byte("never stored"))
	_, err := s.Get(t.Context(), ref)
	var missing *blob.NotFoundError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, ref, missing.Ref)
	require.Equal(t, s.ID(), missing.Store)
}

func invalidRef(t *testing.T, open Opener) {
	s := open(t)
	good := blob.RefOf([]byte("x"))
	_, err := s.Put(t.Context(), []byte("x"))
	require.NoError(t, err)
	for _, sha := range []string{"", "abc", "../../../../etc/passwd", good.SHA256 + "00", strings.ToUpper(good.SHA256), "../" + good.SHA256[3:]} {
		_, err := s.Get(t.Context(), blob.Ref{SHA256: sha, Size: 1})
		var invalid *blob.InvalidRefError
		require.ErrorAs(t, err, &invalid, "reference %q", sha)
	}
}

func otherSize(t *testing.T, open Opener) {
	s := open(t)
	ref, err := s.Put(t.Context(), []byte("four"))
	require.NoError(t, err)
	ref.Size = 5
	_, err = s.Get(t.Context(), ref)
	require.Error(t, err, "a reference with another size must not yield the bytes")
}

func reopen(t *testing.T, open Opener) {
	first := open(t)
	ref, err := first.Put(t.Context(), []byte("kept"))
	require.NoError(t, err)
	second := open(t)
	require.Equal(t, first.ID(), second.ID())
	got, err := second.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, "kept", string(got))
}

func identity(t *testing.T, here, there Opener) {
	require.NotEmpty(t, here(t).ID())
	require.NotEqual(t, here(t).ID(), there(t).ID())
}

func concurrent(t *testing.T, open Opener) {
	handles := []blob.Store{open(t), open(t)}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			s := handles[i%len(handles)]
			for n := range 8 {
				// Every goroutine writes the same eight blobs, so most writes meet another one.
				data := []byte(fmt.Sprintf("blob %d", n))
				ref, err := s.Put(t.Context(), data)
				if !assert.NoError(t, err) {
					return
				}
				got, err := s.Get(t.Context(), ref)
				assert.NoError(t, err)
				assert.Equal(t, data, got)
			}
		})
	}
	wg.Wait()
}

func cancelled(t *testing.T, open Opener) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Put(ctx, []byte("late"))
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Get(ctx, blob.RefOf([]byte("late")))
	require.ErrorIs(t, err, context.Canceled)
}
