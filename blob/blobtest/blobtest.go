package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/blob"
)

// Opener opens one place; every call opens the same place again, as another process would. A driver that lives in one
// process returns the same store each time.
type Opener func(t *testing.T) blob.Store

// Place is where a driver keeps its bytes: a directory, a bucket, a prefix of one.
type Place struct {
	Open Opener
	// Damage replaces the stored bytes of ref, past the driver. Nil leaves out the checks that need it.
	Damage func(t *testing.T, ref blob.Ref, data []byte)
	// Backdate makes the last Put of ref as old as if it had been at that time. Nil leaves out the checks that need it.
	Backdate func(t *testing.T, ref blob.Ref, at time.Time)
}

// Run checks a driver. New is called once for each subtest and returns the Opener of a new, empty place.
func Run(t *testing.T, New func(t *testing.T) Opener) {
	t.Helper()
	RunPlace(t, func(t *testing.T) Place { return Place{Open: New(t)} })
}

// RunPlace is Run for drivers whose tests can reach behind them. New is called once for each subtest, and twice where two
// places are compared. A store that is a blob.Inventory is checked as one.
func RunPlace(t *testing.T, New func(t *testing.T) Place) {
	t.Helper()
	for _, c := range []struct {
		name  string
		check func(t *testing.T, open Opener)
	}{
		{"bytes come back", roundTrip},
		{"no bytes are bytes", noBytes},
		{"equal bytes are one blob", equalBytes},
		{"the caller keeps its slice", ownSlice},
		{"missing bytes are a NotFoundError", notFound},
		{"a malformed reference is an InvalidRefError", invalidRef},
		{"another size is another blob", otherSize},
		{"a claim leads nowhere else", otherClaim},
		{"identity and bytes outlive the handle", reopen},
		{"concurrent use", concurrent},
		{"readers meet whole bytes", readers},
		{"a cancelled context is an error", cancelled},
		{"a store that cannot list says so", listable},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(t, New(t).Open) })
	}
	t.Run("a new place has a new identity", func(t *testing.T) { identity(t, New(t).Open, New(t).Open) })
	t.Run("altered bytes are a CorruptError", func(t *testing.T) { damaged(t, New(t)) })
	for name, check := range map[string]func(t *testing.T, p Place, s blob.Inventory){
		"everything is listed once": listed, "only what is old is deleted": deleted, "a Put refreshes": refreshed,
		"a Put beside a deletion is not lost": rivals,
	} {
		t.Run(name, func(t *testing.T) {
			p := New(t)
			s, err := blob.InventoryOf(p.Open(t))
			if err != nil {
				t.Skip(err)
			}
			check(t, p, s)
		})
	}
}

func roundTrip(t *testing.T, open Opener) {
	s := open(t)
	for _, data := range [][]byte{{}, []byte("a"), {0, 0xff, '\n'}, bytes.Repeat([]byte("0123456789abcdef"), 1<<18)} {
		ref, err := s.Put(t.Context(), data)
		require.NoError(t, err)
		require.True(t, blob.RefOf(data).Same(ref), "%v", ref)
		require.NoError(t, ref.Validate())
		got, err := s.Get(t.Context(), ref)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got), "%d bytes came back as %d others", len(data), len(got))
	}
}

// An empty patch, and an answer of no bytes, are stored like any other.
func noBytes(t *testing.T, open Opener) {
	s := open(t)
	ref, err := s.Put(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, blob.RefOf(nil).Same(ref), "%v", ref)
	got, err := open(t).Get(t.Context(), ref)
	require.NoError(t, err)
	require.Empty(t, got)
}

// A retried activity stores again what it has stored before; both references go on to work.
func equalBytes(t *testing.T, open Opener) {
	s := open(t)
	one, err := s.Put(t.Context(), []byte("same"))
	require.NoError(t, err)
	two, err := open(t).Put(t.Context(), []byte("same"))
	require.NoError(t, err)
	require.True(t, one.Same(two), "%v and %v", one, two)
	for _, ref := range []blob.Ref{one, two} {
		got, err := s.Get(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, "same", string(got))
	}
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
	refs := []blob.Ref{{}, {SHA256: good.SHA256, Size: -1}, {SHA256: good.SHA256, Size: math.MinInt64},
		{SHA256: good.SHA256, Size: 1, Claim: strings.Repeat("c", blob.MaxClaim+1)}}
	for _, sha := range []string{"", "abc", "../../../../etc/passwd", good.SHA256 + "00", strings.ToUpper(good.SHA256), "../" + good.SHA256[3:],
		strings.Repeat("\x00", 64), strings.Repeat("é", 32), " " + good.SHA256[1:], strings.Repeat("a", 1<<20)} {
		refs = append(refs, blob.Ref{SHA256: sha, Size: 1})
	}
	for _, ref := range refs {
		_, err := s.Get(t.Context(), ref)
		var invalid *blob.InvalidRefError
		require.ErrorAs(t, err, &invalid, "reference %.100q", ref.SHA256)
		if i, err := blob.InventoryOf(s); err == nil {
			_, err := i.Delete(t.Context(), ref, time.Now().Add(time.Hour))
			require.ErrorAs(t, err, &invalid, "reference %.100q", ref.SHA256)
		}
	}
	_, err = s.Get(t.Context(), good)
	if missing := new(blob.NotFoundError); !errors.As(err, &missing) {
		require.NoError(t, err)
	}
}

func otherSize(t *testing.T, open Opener) {
	s := open(t)
	ref, err := s.Put(t.Context(), []byte("four"))
	require.NoError(t, err)
	for _, size := range []int64{0, 3, 5, 1 << 40, math.MaxInt64} {
		ref.Size = size
		_, err = s.Get(t.Context(), ref)
		requireTyped(t, err, "a reference with %d bytes must not yield the bytes", size)
	}
}

// requireTyped wants one of the two errors that say that nobody has these bytes.
func requireTyped(t *testing.T, err error, format string, args ...any) {
	t.Helper()
	require.Error(t, err, append([]any{format}, args...)...)
	missing, corrupt := new(blob.NotFoundError), new(blob.CorruptError)
	require.True(t, errors.As(err, &missing) || errors.As(err, &corrupt), "%v", err)
}

// References come from history, where anybody who may write there can put another claim beside a hash.
func otherClaim(t *testing.T, open Opener) {
	s := open(t)
	mine, err := s.Put(t.Context(), []byte("mine"))
	require.NoError(t, err)
	secret, err := s.Put(t.Context(), []byte("secret"))
	require.NoError(t, err)
	for _, claim := range []string{"", secret.Claim, "nonsense", "../../etc/passwd", `{"key":"../x"}`, "{}", "null", "\x00"} {
		got, err := s.Get(t.Context(), blob.Ref{SHA256: mine.SHA256, Size: mine.Size, Claim: claim})
		if err == nil {
			require.Equal(t, "mine", string(got), "claim %q", claim)
		}
	}
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
			for n := range 16 {
				// Every goroutine writes the same eight blobs, so most writes meet another one, and eight of its own.
				data := []byte(fmt.Sprintf("blob %d", n))
				if n >= 8 {
					data = bytes.Repeat([]byte(fmt.Sprintf("own %d %d;", i, n)), 1<<10)
				}
				ref, err := s.Put(t.Context(), data)
				if !assert.NoError(t, err) {
					return
				}
				got, err := s.Get(t.Context(), ref)
				assert.NoError(t, err)
				assert.True(t, bytes.Equal(data, got))
			}
		})
	}
	wg.Wait()
}

// Who reads while the bytes are written gets all of them or none.
func readers(t *testing.T, open Opener) {
	s := open(t)
	data := bytes.Repeat([]byte("whole"), 1<<20)
	// Where references carry a claim, a reader can only have one that Put returned.
	ref := blob.RefOf(data)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				got, err := s.Get(t.Context(), ref)
				if missing := new(blob.NotFoundError); errors.As(err, &missing) {
					assert.Empty(t, got)
				} else if assert.NoError(t, err) {
					assert.True(t, bytes.Equal(data, got))
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range 3 {
		_, err := open(t).Put(t.Context(), data)
		assert.NoError(t, err)
	}
	close(done)
	wg.Wait()
}

func cancelled(t *testing.T, open Opener) {
	s := open(t)
	ref, err := s.Put(t.Context(), []byte("early"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer stop()
	for want, ctx := range map[error]context.Context{context.Canceled: ctx, context.DeadlineExceeded: late} {
		_, err := s.Put(ctx, []byte("late"))
		require.ErrorIs(t, err, want)
		_, err = s.Get(ctx, ref)
		require.ErrorIs(t, err, want)
		i, err := blob.InventoryOf(s)
		if err != nil {
			continue
		}
		_, err = i.Delete(ctx, ref, time.Now().Add(time.Hour))
		require.ErrorIs(t, err, want)
		_, err = entries(ctx, i)
		require.ErrorIs(t, err, want)
	}
	got, err := s.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, "early", string(got))
}

func listable(t *testing.T, open Opener) {
	s := open(t)
	i, err := blob.InventoryOf(s)
	if err == nil {
		require.Equal(t, s, i)
		return
	}
	var no *blob.NotListableError
	require.ErrorAs(t, err, &no)
	require.Equal(t, s.ID(), no.Store)
}

// damaged checks that no other bytes come out than those that were asked for, and that storing them again heals.
func damaged(t *testing.T, p Place) {
	if p.Damage == nil {
		t.Skip("the place cannot be damaged")
	}
	for name, data := range map[string]string{"changed": "keeP", "cut": "ke", "grown": "keep it", "emptied": ""} {
		t.Run(name, func(t *testing.T) {
			s := p.Open(t)
			ref, err := s.Put(t.Context(), []byte("keep"))
			require.NoError(t, err)
			p.Damage(t, ref, []byte(data))
			_, err = p.Open(t).Get(t.Context(), ref)
			var corrupt *blob.CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.Equal(t, ref, corrupt.Ref)
			require.Equal(t, s.ID(), corrupt.Store)
			require.True(t, blob.RefOf([]byte(data)).Same(corrupt.Got), "%v", corrupt.Got)

			ref, err = s.Put(t.Context(), []byte("keep"))
			require.NoError(t, err)
			got, err := s.Get(t.Context(), ref)
			require.NoError(t, err)
			require.Equal(t, "keep", string(got))
		})
	}
}
