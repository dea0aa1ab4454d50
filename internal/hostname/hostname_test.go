package hostname_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/hostname"
)

func Example() {
	for _, text := range []string{"BÜCHER.example.", "::ffff:192.0.2.1", "127.1"} {
		host, err := hostname.Parse(text)
		fmt.Println(host.Name, err)
	}
	// Output:
	// xn--bcher-kva.example <nil>
	// 192.0.2.1 <nil>
	//  an address in a spelling that programs read differently
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"a": "a", "A.Example": "a.example", "a.example.": "a.example", "my_host.example": "my_host.example",
		"b\u00fccher.example": "xn--bcher-kva.example", "a\u3002example": "a.example", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"192.0.2.1": "192.0.2.1", "192.0.2.1.": "192.0.2.1", "\uff11\uff12\uff17.0.0.1": "127.0.0.1",
		"::1": "::1", "0:0:0:0:0:0:0:1": "::1", "::ffff:127.0.0.1": "127.0.0.1", "::ffff:7f00:1": "127.0.0.1",
		"fe80::1%eth0": "fe80::1", "2001:DB8::1": "2001:db8::1",
		"0x7f.example": "0x7f.example", "example.0xg": "example.0xg", "1a": "1a",
		strings.Repeat("a", 63) + ".b": strings.Repeat("a", 63) + ".b",
	} {
		host, err := hostname.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, host.Name, text)
		require.Equal(t, strings.ContainsAny(want, ":") || strings.Count(want, ".") == 3, host.Addr.IsValid(), text)
		again, err := hostname.Parse(host.Name)
		require.NoError(t, err, text)
		require.Equal(t, want, again.Name, text)
	}
	zoned, err := hostname.Parse("fe80::1%eth0")
	require.NoError(t, err)
	require.Equal(t, "eth0", zoned.Addr.Zone())

	for _, text := range []string{
		"", ".", "..", "a..b", ".a", "a b", "a/b", "a:80", "[::1]", "a\x00", "a\u202eb", "a\xff", "*.a", "a,b", "a%41",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "bc", strings.Repeat("\u4e00", 400), strings.Repeat("a", 1<<20),
	} {
		_, err := hostname.Parse(text)
		require.ErrorIs(t, err, hostname.ErrNone, "%.40q", text)
	}
	for _, text := range []string{
		"2130706433", "127.1", "0x7f.1", "0x7f000001", "0177.0.0.1", "a.1", "a.0x", "1.2.3.4.5", "2130706433.", "0X7F.1",
		"\uff11\uff12\uff17.1", "256.256.256.256",
	} {
		_, err := hostname.Parse(text)
		require.ErrorIs(t, err, hostname.ErrDisguised, text)
	}
}
