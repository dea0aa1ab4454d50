package approval_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
)

// FuzzDecode holds the one promise that matters: nothing but an explicit allow of a pending question allows. The
// oracle reads answers by another way than the decoder does.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`"allow"`, `"deny"`, `{"key":"a","decision":"allow"}`, `"{\"key\":\"b\",\"decision\":\"allow\"}"`, `{"key":"a"}`,
		`{"key":"a","key":"c","decision":"allow"}`, `{"KEY":"a","decision":"allow"}`, `{"key":"a","decision":"allow"}}`,
		`{"key":"\u0061","decision":"\u0061llow","input":{"x":[1]},"expiresAt":"2027-01-01T00:00:00Z"}`, `null`, `{`, "\"\xff\"",
		`{"key":"a","decision":"allow","signature":{"keyId":1}}`, `"\"allow\""`, ` " allow " `,
	} {
		for n := range uint8(3) {
			f.Add([]byte(s), n)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, n uint8) {
		pending := []string{"a", "b", "c"}[:n%4]
		got, err := approval.Decode(bytes.Clone(data), pending, nil)
		if err != nil {
			require.Empty(t, got)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.NotEmpty(t, got)
		for _, r := range got {
			require.Contains(t, pending, r.Key)
			require.Contains(t, []approval.Choice{approval.Allow, approval.Deny, approval.Revoke}, r.Decision)
			if r.Decision == approval.Allow {
				require.Len(t, got, 1)
				require.True(t, allows(data, pending, r.Key), "%q", data)
			}
		}
	})
}

// allows is the oracle: the word with one pending question, or a whole JSON object that holds the key and the
// word allow under their exact names, once each.
func allows(data []byte, pending []string, key string) bool {
	text := strings.TrimSpace(string(data))
	var inner string
	if json.Unmarshal([]byte(text), &inner) == nil && strings.HasPrefix(text, `"`) {
		text = strings.TrimSpace(inner)
		if text == "allow" {
			return slices.Equal(pending, []string{key})
		}
	}
	var members map[string]any
	if json.Unmarshal([]byte(text), &members) != nil {
		return false
	}
	return members["key"] == key && members["decision"] == "allow"
}
