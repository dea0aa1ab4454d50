package modeltest_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/modeltest"
)

// whole is the stream of a turn, byte for byte.
func whole(t *testing.T, api modeltest.API, r model.Response) []byte {
	t.Helper()
	s := modeltest.Serve(t, api, always(r))
	var stream []byte
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		stream = rec.Body.Bytes()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(stream)
	}))
	defer front.Close()
	_, err := driver(t, api, at(api, front), nil).Generate(t.Context(), hello)
	require.NoError(t, err)
	return stream
}

// at is the base URL of an API on a server.
func at(api modeltest.API, s *httptest.Server) string {
	if api == modeltest.Messages {
		return s.URL
	}
	return s.URL + "/v1"
}

// Whatever becomes of a stream on its way, a driver returns a turn, whose calls have arguments or say what was there, or a
// *model.Error. The mangling is the same in every run. A fuzzer is no use here: it would watch the SDKs, which are too large
// for it.
func TestMangledStreams(t *testing.T) {
	said := model.Response{Text: "Two.", Stop: model.StopToolUse, Calls: []model.ToolCall{
		{ID: "a", Name: "look", Input: []byte(`{"n":1}`)}, {ID: "b", Name: "look", Input: []byte(`{}`)}}}
	for _, api := range modeltest.APIs {
		t.Run(string(api), func(t *testing.T) {
			t.Setenv("MODELTEST_KEY", modeltest.Key)
			good, random := whole(t, api, said), rand.New(rand.NewPCG(1, 2))
			var stream []byte
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = w.Write(stream)
			}))
			defer server.Close()
			d := driver(t, api, at(api, server), nil)
			events := bytes.SplitAfter(good, []byte("\n\n"))
			for range 800 {
				stream = mangled(random, events)
				r, err := d.Generate(t.Context(), hello)
				var m *model.Error
				require.True(t, err == nil || errors.As(err, &m), "%v: %s", err, stream)
				for _, call := range r.Calls {
					require.True(t, len(call.Input) > 0 || call.Raw != "", "%s", stream)
				}
			}
		})
	}
}

// mangled drops, repeats, swaps and damages events.
func mangled(random *rand.Rand, events [][]byte) []byte {
	out := slices.Clone(events)
	for range 1 + random.IntN(4) {
		i, j := random.IntN(len(out)), random.IntN(len(out))
		switch random.IntN(5) {
		case 0:
			out = slices.Delete(out, i, i+1)
		case 1:
			out = slices.Insert(out, i, out[j])
		case 2:
			out[i], out[j] = out[j], out[i]
		case 3:
			damaged := slices.Clone(out[i])
			if len(damaged) > 0 {
				damaged[random.IntN(len(damaged))] = byte(random.IntN(256))
			}
			out[i] = damaged
		case 4:
			k := 0
			if len(out[i]) > 0 {
				k = random.IntN(len(out[i]))
			}
			out[i] = slices.Concat(out[i][:k], []byte([]string{`null`, `{}`, `[`, `1e999`, `"`, `-1`}[random.IntN(6)]), out[i][k:])
		}
		if len(out) == 0 {
			return nil
		}
	}
	return bytes.Join(out, nil)
}
