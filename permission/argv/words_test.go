package argv

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"rm -rf **":               {"rm", "-rf", "**"},
		"**":                      {"**"},
		` npm   run * 'a b' "*" `: {"npm", "run", "*", "'a b'", `"*"`},
		`A=b sh -c "x y"`:         {"A=b", "sh", "-c", `"x y"`},
	} {
		p, err := Compile(text)
		require.NoError(t, err)
		require.Equal(t, want, p.Words(), text)
		again, err := Compile(strings.Join(p.Words(), " "))
		require.NoError(t, err)
		require.Equal(t, p.tokens, again.tokens, text)
		require.Equal(t, p.rest, again.rest, text)
	}
	require.Empty(t, Pattern{}.Words())
}
