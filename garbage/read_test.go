package garbage

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzHashes holds the scanner against a regular expression.
func FuzzHashes(f *testing.F) {
	sum := strings.Repeat("0123456789abcdef", 4)
	for _, seed := range []string{"", sum, `{"sha256":"` + sum + `"}`, sum + "0", "x" + sum + "y" + sum, sum[1:], "2" + sum + "b0", strings.Repeat(sum, 9), strings.ToUpper(sum), sum + "\n" + sum} {
		f.Add([]byte(seed))
	}
	runs := regexp.MustCompile(`[0-9a-f]+`)
	f.Fuzz(func(t *testing.T, data []byte) {
		want := map[string]bool{}
		for _, r := range runs.FindAll(data, -1) {
			for i := 0; len(r) <= mostHex && i+length <= len(r); i++ {
				want[string(r[i:i+length])] = true
			}
		}
		got := map[string]bool{}
		hashes(data, got)
		require.Equal(t, want, got)
	})
}
