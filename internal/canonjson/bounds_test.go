package canonjson_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/canonjson"
)

// Whatever is sent is answered: with bytes, or with an error that is small and says where.
func TestMonstrousTexts(t *testing.T) {
	wide := []byte(`{"list":[` + strings.Repeat(`{"b":1,"a":[2,3]},`, 50_000) + `0]}`)
	got, err := canonjson.Canonical(wide)
	require.NoError(t, err)
	require.Len(t, got, len(wide))
	require.True(t, bytes.HasPrefix(got, []byte(`{"list":[{"a":[2,3],"b":1},`)))

	for name, c := range map[string]struct {
		in   string
		want error
	}{
		"100,000 lists deep":       {strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), canonjson.ErrTooDeep},
		"100,000 objects deep":     {strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), canonjson.ErrTooDeep},
		"5 MB of open brackets":    {strings.Repeat("[", 5<<20), canonjson.ErrTooDeep},
		"5 MB of digits":           {strings.Repeat("7", 5<<20), canonjson.ErrNumberRange},
		"5 MB behind the point":    {"0." + strings.Repeat("7", 5<<20), canonjson.ErrNumberRange},
		"an exponent of 5 MB":      {"1e" + strings.Repeat("9", 5<<20), canonjson.ErrNumberRange},
		"5 MB of one open string":  {`"` + strings.Repeat("x", 5<<20), canonjson.ErrSyntax},
		"a key twice among 50,000": {`{` + strings.Repeat(`"k":1,`, 50_000) + `"k":1}`, canonjson.ErrDuplicateKey},
		"5 MB of spaces":           {strings.Repeat(" ", 1<<20), canonjson.ErrSyntax},
	} {
		_, err := canonjson.Canonical([]byte(c.in))
		require.ErrorIs(t, err, c.want, name)
		require.Less(t, len(err.Error()), 10_000, name)
	}

	// Zeros are not significant, however many.
	got, err = canonjson.Canonical([]byte("0." + strings.Repeat("0", 1<<20)))
	require.NoError(t, err)
	require.Equal(t, "0", string(got))
}
