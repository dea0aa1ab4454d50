package canonjson_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/canonjson"
)

// FuzzCanonical holds the promise of the package against encoding/json: what is accepted is JSON with the same
// value, the form is a fixed point, and another way to write the same value has the same bytes.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		`{"b":[1,2.50,-0,1e21,1E-7,9007199254740993,1e400],"a":"\ud83d\ude00\n"}`, `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"",
		`[[[[]]]]`, `123456789012345683968`, `{"":null,"é":true}`, `0.00000000000000000000000000001`, ` 1 `, `{`, `1e-10000`,
		`{"\ufb33":1,"\ud83d\ude00":2}`, `100000000000000000000000.5`, `1e10001`, `-`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		first, err := canonjson.Canonical(raw)
		if err != nil {
			return
		}
		require.True(t, json.Valid(raw), "accepted what is not JSON")
		again, err := canonjson.Canonical(first)
		require.NoError(t, err)
		require.Equal(t, string(first), string(again), "not a fixed point")

		was, is := decode(t, raw), decode(t, first)
		require.True(t, same(was, is), "value changed: %s", first)

		// encoding/json writes other escapes, other white space and members in another order.
		indented, err := json.MarshalIndent(was, " ", "\t")
		require.NoError(t, err)
		rewritten, err := canonjson.Canonical(indented)
		require.NoError(t, err)
		require.Equal(t, string(first), string(rewritten), "equal values, other bytes")
	})
}

// FuzzNumber compares two ways to write a number, as exact fractions: equal values and only those have equal bytes.
func FuzzNumber(f *testing.F) {
	for _, pair := range [][2]string{
		{"1", "1.0"}, {"1e2", "100"}, {"9007199254740993", "9007199254740992"}, {"1e400", "10e399"},
		{"123456789012345683968", "123456789012345680000"}, {"0", "-0.0"}, {"1e-7", "0.0000001"}, {"5e-324", "4.9e-324"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errA := canonjson.Canonical([]byte(a))
		y, errB := canonjson.Canonical([]byte(b))
		if errA != nil || errB != nil {
			return
		}
		p, okP := new(big.Rat).SetString(strings.TrimSpace(a))
		q, okQ := new(big.Rat).SetString(strings.TrimSpace(b))
		if okP && okQ && !strings.ContainsAny(a+b, `"[{_`) {
			require.Equal(t, p.Cmp(q) == 0, bytes.Equal(x, y), "%s and %s", x, y)
		}
	})
}

func decode(t *testing.T, raw []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v))
	return v
}

// same is reflect.DeepEqual with numbers compared by value.
func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		if zero(string(a)) {
			// Whatever its exponent, which may be beyond what big.Rat reads.
			return ok && zero(string(n))
		}
		x, okX := new(big.Rat).SetString(string(a))
		y, okY := new(big.Rat).SetString(string(n))
		return ok && okX && okY && x.Cmp(y) == 0
	case []any:
		other, ok := b.([]any)
		if !ok || len(a) != len(other) {
			return false
		}
		for i := range a {
			if !same(a[i], other[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		other, ok := b.(map[string]any)
		if !ok || len(a) != len(other) {
			return false
		}
		for k := range a {
			if !same(a[k], other[k]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

// zero reports whether a number's digits before the exponent are all 0.
func zero(number string) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	return !strings.ContainsAny(mantissa, "123456789")
}
