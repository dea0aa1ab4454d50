package toolbox

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

// spellings are ways to write 127.0.0.1 that some program understands.
var spellings = []string{
	"127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "0127.0.0.1", "0177.0.0.1", "0177.1", "0x7f.0.0.1", "0x7F.1", "0x7f000001", "0X7F000001",
	"2130706433", "2130706433.", "017700000001", "00000177.0.0.1", "127.0.0.1%00", "127.000.000.001", "127.0x0.0.1",
	"１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1", "127｡0｡0｡1", "１２７．０．０．１", "２１３０７０６４３３", "0ｘ7f.1", "%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1",
	"[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::127.0.0.1]",
	"[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[::1%25lo]", "[fe80::1%25lo]", "[::ffff:127.0.0.1%25lo]",
	"0.0.0.0", "0", "0x0", "[::]", "[::ffff:0.0.0.0]", "0.0.0.1", "127.255.255.254", "localhost", "LOCALHOST", "localhost.", "loc%61lhost", "127.0.0.1:",
}

func TestNoSpellingReachesTheLoopback(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	six := newSite6(t)
	d := newFetch(t, FetchConfig{}) // with the real resolver
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	ports := []string{port}
	if six != nil {
		_, port, err = net.SplitHostPort(six.Listener.Addr().String())
		require.NoError(t, err)
		ports = append(ports, port)
	}
	for _, host := range spellings {
		for _, port := range ports {
			for _, scheme := range []string{"http", "https", "HTTP"} {
				r := call(t, d, nil, fields{"url": scheme + "://" + host + ":" + port + "/"})
				if strings.Contains(host, "%") && r.Code == tool.ToolError {
					assert.Contains(t, r.Failure.Message, "bad URL", host)
					continue
				}
				if host == "127.0.0.1:" { // two colons
					assert.False(t, r.IsOK())
					continue
				}
				require.Equal(t, tool.Denied, r.Code, "%s: %s %+v", host, r.Value, r.Failure)
			}
		}
	}
	assert.Empty(t, s.requests())
	if six != nil {
		assert.Empty(t, six.requests())
	}
	// The server is there: who is admitted reaches it.
	fetched(t, newFetch(t, FetchConfig{Allow: []string{"127.0.0.1"}}), nil, fields{"url": s.URL})
	fetched(t, newFetch(t, FetchConfig{Allow: []string{"localhost"}}), nil, fields{"url": s.at("localhost", "/")})
	assert.Len(t, s.requests(), 2)
}

// newSite6 is a site on ::1, or nil on a machine without IPv6.
func newSite6(t *testing.T) *site {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return nil
	}
	return newSiteOn(t, l, func(http.ResponseWriter, *http.Request) {})
}

func TestClassify(t *testing.T) {
	for text, want := range map[string]string{
		"8.8.8.8": "", "1.1.1.1": "", "172.15.255.255": "", "172.32.0.0": "", "100.63.255.255": "", "100.128.0.0": "", "198.17.255.255": "", "198.20.0.0": "",
		"126.255.255.255": "", "128.0.0.0": "", "11.0.0.0": "", "9.255.255.255": "", "223.255.255.255": "", "169.253.255.255": "", "192.167.255.255": "",
		"2606:4700::1111": "", "2a00:1450:4001::200e": "", "2001:4860:4860::8888": "", "2003::1": "", "64:ff9b::8.8.8.8": "", "::ffff:8.8.8.8": "",
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified",
		"127.0.0.1": "loopback", "127.255.255.255": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback", "64:ff9b::127.0.0.1": "loopback",
		"169.254.169.254": "metadata", "169.254.170.2": "metadata", "100.100.100.200": "metadata", "168.63.129.16": "metadata", "192.0.0.192": "metadata",
		"fd00:ec2::254": "metadata", "fd20:ce::254": "metadata", "64:ff9b::a9fe:a9fe": "metadata", "::ffff:169.254.169.254": "metadata",
		"169.254.0.1": "link-local", "fe80::1": "link-local", "febf::1": "link-local", "fe80::1%lo": "zone", "2606:4700::1111%lo": "zone",
		"10.0.0.1": "private", "10.255.255.255": "private", "172.16.0.0": "private", "172.31.255.255": "private", "192.168.1.1": "private",
		"fc00::1": "private", "fdff::1": "private", "fec0::1": "private", "64:ff9b::10.0.0.1": "private",
		"100.64.0.0": "CGNAT", "100.127.255.255": "CGNAT", "224.0.0.1": "multicast", "239.255.255.255": "multicast", "ff02::1": "multicast", "ff0e::1": "multicast",
		"192.0.2.1": "documentation", "198.51.100.1": "documentation", "203.0.113.1": "documentation", "2001:db8::1": "documentation", "3fff::1": "documentation",
		"198.18.0.1": "benchmarking", "198.19.255.255": "benchmarking", "2001:2::1": "benchmarking",
		"::10.0.0.1": "other clothes", "::2": "other clothes", "::ffff:0:10.0.0.1": "other clothes", "64:ff9b:1::10.0.0.1": "other clothes",
		"2002:a00:1::": "other clothes", "2002:808:808::": "other clothes", "2001:0:a00:1::": "other clothes", "2001::1": "other clothes",
		"240.0.0.1": "reserved", "255.255.255.255": "reserved", "192.0.0.8": "reserved", "192.88.99.1": "reserved", "100::1": "reserved", "4000::1": "reserved",
		"5f00::1": "reserved", "2001:10::1": "reserved", "2001:20::1": "reserved", "64:ff9b::1:0:0": "reserved", "64:ff9a::1": "reserved",
	} {
		got := classify(netip.MustParseAddr(text))
		if want == "" {
			assert.Empty(t, got, text)
		} else {
			assert.Contains(t, got, want, text)
		}
	}
	assert.Equal(t, "a reserved address", classify(netip.Addr{}))
}

func TestEveryAddressOfAHostIsChecked(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	for answer, want := range map[string]string{
		"10.0.0.1":                 "a.test is 10.0.0.1, a private address; only an operator can admit it, with worker.fetch.allow",
		"8.8.8.8 127.0.0.1":        "a.test is 127.0.0.1, a loopback address",
		"127.0.0.1 8.8.8.8":        "a.test is 127.0.0.1, a loopback address",
		"2606:4700::1111 fe80::1":  "fe80::1, a link-local address",
		"fe80::1%lo":               "a.test is fe80::1%lo, an address with a zone",
		"::ffff:127.0.0.1":         "a loopback address",
		"64:ff9b::127.0.0.1":       "a loopback address",
		"8.8.8.8 169.254.169.254":  "a cloud's metadata address",
		"8.8.8.8 ::ffff:10.0.0.20": "a private address",
	} {
		names := &dns{answers: map[string][]string{"a.test": {answer}}}
		refused(t, call(t, newFetch(t, FetchConfig{lookup: names.lookup}), nil, fields{"url": s.at("a.test", "/")}), "worker.fetch.allow", want)
	}
	nobody := &dns{answers: map[string][]string{"a.test": {" "}}}
	failed(t, call(t, newFetch(t, FetchConfig{lookup: nobody.lookup}), nil, fields{"url": s.at("a.test", "/")}), false, "no such host")
	assert.Empty(t, s.requests())
}

// A rule that names an address holds for every name that has it, whoever was asked about the name.
func TestRulesHoldForAddresses(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	in := fields{"url": s.at("a.test", "/")}
	deny := policy(t, permission.Layer{Deny: []permission.Rule{hosts("127.0.0.1")}})
	ask := policy(t, permission.Layer{Ask: []permission.Rule{hosts("127.0.0.1")}})
	d := newFetch(t, FetchConfig{Allow: []string{"a.test", "127.0.0.0/8"}, lookup: local})
	refused(t, call(t, d, deny, in), "deny-rule {tool: fetch, domains: [127.0.0.1]}", "a.test is 127.0.0.1: denied: ")
	refused(t, call(t, d, ask, in), "ask-rule {tool: fetch, domains: [127.0.0.1]}", "nobody can be asked any more")
	for _, answer := range []string{"127.0.0.9 127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1"} {
		names := &dns{answers: map[string][]string{"a.test": {answer}}}
		d := newFetch(t, FetchConfig{Allow: []string{"a.test"}, lookup: names.lookup})
		refused(t, call(t, d, deny, in), "deny-rule {tool: fetch, domains: [127.0.0.1]}", "127.0.0.1: denied: ")
	}
	refused(t, call(t, d, deny, fields{"url": "http://[64:ff9b::7f00:1]/"}), "deny-rule {tool: fetch, domains: [127.0.0.1]}", "")
	refused(t, call(t, d, deny, fields{"url": s.at("127.0.0.1", "/")}), "deny-rule {tool: fetch, domains: [127.0.0.1]}", "")
	assert.Empty(t, s.requests())
	// The address is what the URL says, so the chain has asked about it.
	fetched(t, d, ask, fields{"url": s.at("127.0.0.1", "/")})
	fetched(t, d, ask, fields{"url": s.at("[::ffff:127.0.0.1]"[1:17], "/")})
	assert.Len(t, s.requests(), 2)
}

func TestARuleHoldsAtEveryPortAndSpelling(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	d := newFetch(t, open())
	rules := policy(t, permission.Layer{Deny: []permission.Rule{hosts("evil.test", "*.bad.test", "bücher.test")}})
	for _, host := range []string{"evil.test", "EVIL.test", "evil.test.", "ｅｖｉｌ.test", "evil。test", "x.bad.test", "a.b.bad.test", "bücher.test", "BÜCHER.test",
		"xn--bcher-kva.test", "b%C3%BCcher.test"} {
		for _, port := range []string{"", ":", ":80", ":8080", ":00080"} {
			r := call(t, d, rules, fields{"url": "http://" + host + port + "/"})
			require.Equal(t, tool.Denied, r.Code, "%s%s %+v", host, port, r.Failure)
			assert.True(t, strings.HasPrefix(r.Failure.By, "deny-rule {tool: fetch"), host)
		}
	}
	fetched(t, d, rules, fields{"url": s.at("bad.test", "/")})
}

// What the chain judged is what is fetched, and nothing that an address parser anywhere takes for an address is a name.
func FuzzTarget(f *testing.F) {
	for _, host := range append(spellings, "a.test", "a.test.", "bücher.example", "xn--bcher-kva", "a_b.c", "1.2.3.4.5", "0x", "a.0x7f") {
		f.Add("http://" + host + "/p?q#f")
	}
	for _, text := range []string{"https://u:p@a.test:443/", "http://a.test:99999", "//a", "http:a", "file:///etc/passwd", "http://[::1]:80%2f", "http://a.test\\@b.test",
		"http://1::2:80/", "http://::1/", "http://[a.test]/", "http://a.test/%2e%2e/\xff?\xff\x01"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		got, err := newTarget(u)
		if err != nil {
			return
		}
		normal, ok := permission.NormalHost(u.Hostname())
		require.True(t, ok)
		require.Equal(t, normal, got.host)
		if addr, ok := aton(got.host); ok {
			require.Equal(t, addr, got.addr)
		}
		if !got.addr.IsValid() {
			_, err := netip.ParseAddr(got.host)
			require.Error(t, err)
		}
		again, err := url.Parse(got.String())
		require.NoError(t, err)
		second, err := newTarget(again)
		require.NoError(t, err)
		require.Equal(t, got.String(), second.String())
		require.Equal(t, [2]string{got.host, got.port}, [2]string{second.host, second.port})
		req, err := http.NewRequest(http.MethodGet, got.String(), nil)
		require.NoError(t, err)
		require.Equal(t, got.host, req.URL.Hostname())
	})
}

// aton reads an IPv4 address as the C library's inet_aton does.
func aton(text string) (netip.Addr, bool) {
	parts := strings.Split(text, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint64
	for i, part := range parts {
		digits, base := part, 10
		if rest, ok := strings.CutPrefix(part, "0x"); ok {
			digits, base = rest, 16
		} else if len(part) > 1 && part[0] == '0' {
			base = 8
		}
		n, err := strconv.ParseUint(digits, base, 32)
		if err != nil {
			return netip.Addr{}, false
		}
		if i == len(parts)-1 {
			if n >= 1<<(8*(5-len(parts))) {
				return netip.Addr{}, false
			}
			sum |= n
		} else if n > 255 {
			return netip.Addr{}, false
		} else {
			sum |= n << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), true
}

func TestAton(t *testing.T) {
	for text, want := range map[string]string{"127.1": "127.0.0.1", "0x7f000001": "127.0.0.1", "0177.0.0.1": "127.0.0.1", "1.2.3.4": "1.2.3.4", "10.258": "10.0.1.2"} {
		got, ok := aton(text)
		require.True(t, ok, text)
		require.Equal(t, want, got.String())
	}
}

func FuzzClassify(f *testing.F) {
	for _, text := range []string{"127.0.0.1", "::1", "64:ff9b::a00:1", "2002:7f00:1::", "fe80::1", "ff02::1", "2606:4700::1111", "::ffff:10.0.0.1"} {
		b := netip.MustParseAddr(text).As16()
		f.Add(b[:], false)
	}
	f.Fuzz(func(t *testing.T, b []byte, four bool) {
		var wide [16]byte
		copy(wide[:], b)
		addr := netip.AddrFrom16(wide)
		if four {
			addr = netip.AddrFrom4([4]byte(wide[:4]))
			in6 := netip.AddrFrom16(addr.As16())
			require.Equal(t, classify(addr), classify(in6))
			nat := netip.MustParseAddr(fmt.Sprintf("64:ff9b::%s", addr))
			require.Equal(t, classify(addr), classify(nat))
		}
		special := addr.Unmap()
		if special.IsPrivate() || special.IsLoopback() || special.IsMulticast() || special.IsUnspecified() || special.IsLinkLocalUnicast() || !special.IsGlobalUnicast() {
			require.NotEmpty(t, classify(addr), addr)
		}
	})
}
