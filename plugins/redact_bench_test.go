package plugins

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// benchText is what a tool returns: log lines, and one secret among them.
func benchText(lines int) string {
	var b strings.Builder
	for n := range lines {
		fmt.Fprintf(&b, "2026-03-04T05:06:07Z info request %d handled in %d ms by worker-%d, 200 OK, 1377 bytes\n", n, n%97, n%8)
	}
	return b.String() + "password=hunter2\n"
}

// BenchmarkRedact compares searching by keyword with searching for everything, in the same run.
func BenchmarkRedact(b *testing.B) {
	r, err := NewRedactor(RedactConfig{})
	if err != nil {
		b.Fatal(err)
	}
	naive := *r
	naive.naive = true
	text := benchText(700)
	if r.Text(text) != naive.Text(text) {
		b.Fatal("the two differ")
	}
	measure := func(r *Redactor, n int) time.Duration {
		start := time.Now()
		for range n {
			r.Text(text)
		}
		return time.Since(start) / time.Duration(max(n, 1))
	}
	slow := measure(&naive, 3)
	b.SetBytes(int64(len(text)))
	b.ResetTimer()
	fast := measure(r, b.N)
	b.ReportMetric(float64(slow)/float64(max(fast, 1)), "naive/prefilter")
}

// BenchmarkRedactGrows reports how many times as long sixteen times as much takes, for texts that are made to be slow: 16
// is linear.
func BenchmarkRedactGrows(b *testing.B) {
	r, err := NewRedactor(RedactConfig{})
	if err != nil {
		b.Fatal(err)
	}
	for name, unit := range map[string]string{
		"log": benchText(1), "begin": "-----BEGIN " + "PRIVATE KEY-----", "end": "-----END " + "PRIVATE KEY-----", "password": "password=", "quotes": `password="`, "key": "key",
		"url": "a://b:c@", "colon": "a://b:", "jwt": "eyJ", "jwts": "eyJaaaaaaaa.", "sk": "sk-", "authorization": "authorization:", "backslash": `token\`, "cli": "--token -",
		"list": "password=[x ", "quoted lines": "password=\"x\n", "block": "password:\n ", "blank lines": "password:\n\n\n\n\n\n\n", "pair": "password\nvalue: ",
	} {
		b.Run(name, func(b *testing.B) {
			small := strings.Repeat(unit, 32<<10/len(unit))
			large := strings.Repeat(small, 16)
			once := func(text string) time.Duration {
				best := time.Duration(1 << 62)
				for range 3 {
					start := time.Now()
					r.Text(text)
					best = min(best, time.Since(start))
				}
				return best
			}
			for b.Loop() {
				b.ReportMetric(float64(once(large))/float64(max(once(small), 1)), "x")
			}
			b.ReportMetric(float64(once(large).Nanoseconds())/float64(len(large)), "ns/B")
		})
	}
}
