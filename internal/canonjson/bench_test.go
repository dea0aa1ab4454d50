package canonjson_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/assent-dev/assent/internal/canonjson"
)

// kibibyte is a typical call: text, numbers, nesting, members out of order.
func kibibyte() []byte {
	row := `{"path":"internal/canonjson/scanner.go","line":117,"text":"if s.pos < len(s.in) {","score":0.75,"tags":["go","json"]}`
	return []byte(`{"results":[` + strings.Repeat(row+",", 7) + row + `],"query":"canonical","done":true,"a":null}`)
}

// BenchmarkCanonical1KiB also reports how many times as long it takes as reading and writing the same bytes with
// encoding/json.
func BenchmarkCanonical1KiB(b *testing.B) {
	raw := kibibyte()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canonjson.Canonical(raw); err != nil {
			b.Fatal(err)
		}
	}
	took := float64(b.Elapsed()) / float64(b.N)
	const rounds = 500
	start := time.Now()
	for range rounds {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			b.Fatal(err)
		}
		if _, err := json.Marshal(v); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(took/(float64(time.Since(start))/rounds), "x-json")
}
