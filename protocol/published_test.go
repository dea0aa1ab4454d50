package protocol_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/protocol"
)

// docs/security.md publishes the header so that other languages can check it: its example is a grant, byte for byte.
func TestPublishedHeader(t *testing.T) {
	page, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	block := func(name string) string {
		m := regexp.MustCompile("<!-- " + name + " -->\n```json\n(.*)\n```\n").FindSubmatch(page)
		require.NotNil(t, m, name)
		return string(m[1])
	}
	signed := ring(t, k1).Sign(grant, place)
	header, err := json.Marshal(signed)
	require.NoError(t, err)
	require.Equal(t, block("grant"), string(header))
	require.Equal(t, block("material"), string(signed.Material(place)))

	// As another language would do it, with nothing of ours.
	mac := hmac.New(sha256.New, []byte("0123456789abcdef"))
	mac.Write([]byte(block("material")))
	var published protocol.Grant
	require.NoError(t, json.Unmarshal([]byte(block("grant")), &published))
	require.Equal(t, base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16]), published.MAC)
	require.NoError(t, ring(t, k1).Verify(published, place, "i", early))
}
