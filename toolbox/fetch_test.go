package toolbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

const (
	patience = time.Minute
	tick     = 10 * time.Millisecond
)

// site is a real server on 127.0.0.1 that counts what reaches it.
type site struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func newSite(t *testing.T, h http.HandlerFunc) *site {
	s := &site{}
	s.Server = httptest.NewServer(s.counting(h))
	t.Cleanup(s.Close)
	return s
}

func (s *site) counting(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Method+" "+r.Host+r.RequestURI)
		s.mu.Unlock()
		h(w, r)
	})
}

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// at is a URL of the site under another name.
func (s *site) at(host, path string) string {
	u, _ := url.Parse(s.URL)
	return u.Scheme + "://" + net.JoinHostPort(host, u.Port()) + path
}

// dns answers for names, one answer after the other; the last one stays.
type dns struct {
	mu      sync.Mutex
	answers map[string][]string
	asked   []string
}

func (d *dns) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, host)
	list := d.answers[host]
	if len(list) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(list) > 1 {
		d.answers[host] = list[1:]
	}
	var out []netip.Addr
	for _, a := range strings.Fields(list[0]) {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

// local resolves every name of .test to 127.0.0.1.
func local(_ context.Context, host string) ([]netip.Addr, error) {
	if !strings.HasSuffix(host, ".test") && host != "example.com" {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func newFetch(t *testing.T, cfg FetchConfig) *tool.Def {
	t.Helper()
	d, err := Fetch(cfg)
	require.NoError(t, err)
	return d
}

// open is a configuration that reaches the sites of a test by the names of .test.
func open() FetchConfig {
	return FetchConfig{Allow: []string{"127.0.0.1"}, lookup: local}
}

func hosts(hosts ...string) permission.Rule {
	return permission.Rule{Tool: permission.One("fetch"), Domains: permission.Many(hosts...)}
}

func policy(t *testing.T, layer permission.Layer) tool.Rules {
	t.Helper()
	c, err := permission.Compile(permission.Spec{Engine: layer})
	require.NoError(t, err)
	return c.Rules("fetch")
}

type fields map[string]any

func call(t *testing.T, d *tool.Def, rules tool.Rules, in fields) tool.Result {
	t.Helper()
	input, err := json.Marshal(in)
	require.NoError(t, err)
	return d.Invoke(t.Context(), &tool.Context{Rules: rules}, input)
}

func fetched(t *testing.T, d *tool.Def, rules tool.Rules, in fields) Fetched {
	t.Helper()
	r := call(t, d, rules, in)
	require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
	var got Fetched
	require.NoError(t, json.Unmarshal(r.Value, &got))
	return got
}

// refused asserts DENIED by somebody for a reason.
func refused(t *testing.T, r tool.Result, by, message string) {
	t.Helper()
	require.Equal(t, tool.Denied, r.Code, "%s %+v", r.Value, r.Failure)
	assert.Equal(t, tool.ByRule, r.Failure.Reason)
	assert.Equal(t, by+", at run time", r.Failure.By)
	assert.Contains(t, r.Failure.Message, message)
}

func failed(t *testing.T, r tool.Result, retry bool, message string) {
	t.Helper()
	require.Equal(t, tool.ToolError, r.Code, "%s %+v", r.Value, r.Failure)
	assert.Contains(t, r.Failure.Message, message)
	assert.Equal(t, retry, r.Failure.Retry, r.Failure.Message)
}

func TestFetchReturnsWhatCame(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Add("X-Two", "a")
		w.Header().Add("X-Two", "b")
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprintf(w, "%s %s %d|%s|%s|%s|%s", r.Method, r.URL, r.ContentLength, body, r.Header.Get("X-Mine"), r.UserAgent(), r.TransferEncoding)
	})
	d := newFetch(t, open())
	got := fetched(t, d, nil, fields{"url": s.at("A.test.", "/p q?x=1 2&ü#part")})
	assert.Equal(t, 200, got.Status)
	assert.Equal(t, s.at("a.test", "/p%20q?x=1%202&%C3%BC"), got.URL)
	assert.Equal(t, "GET /p%20q?x=1%202&%C3%BC 0|||assent-fetch|[]", got.Body)
	assert.Equal(t, []string{"a", "b"}, got.Headers["X-Two"])
	assert.Empty(t, got.Redirects)

	got = fetched(t, d, nil, fields{"url": s.at("a.test", "/missing"), "method": "POST", "body": "é", "headers": fields{"x-mine": "1", "User-Agent": "me"}})
	assert.Equal(t, 404, got.Status)
	assert.Equal(t, "POST /missing 2|é|1|me|[]", got.Body)
	for _, method := range []string{"PUT", "PATCH", "DELETE", "POST"} {
		assert.Equal(t, method+" / 0|||assent-fetch|[]", fetched(t, d, nil, fields{"url": s.at("a.test", ""), "method": method}).Body)
		assert.Equal(t, method+" / 1|x||assent-fetch|[]", fetched(t, d, nil, fields{"url": s.at("a.test", ""), "method": method, "body": "x"}).Body)
	}
	got = fetched(t, d, nil, fields{"url": s.at("a.test", "/"), "method": "HEAD"})
	assert.Equal(t, 200, got.Status)
	assert.Empty(t, got.Body)
	assert.Equal(t, "OPTIONS / 0|||assent-fetch|[]", fetched(t, d, nil, fields{"url": s.URL, "method": "OPTIONS"}).Body)
}

func TestFetchTellsWhatIsWrong(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	d := newFetch(t, open())
	gone := httptest.NewServer(nil)
	gone.Close()
	for in, want := range map[string]string{
		"no.where":            `no such host "no.where"; names are looked up in full, without search domains`,
		gone.URL:              "connection refused",
		"example.com":         "want an absolute URL",
		"//a.test/":           "want an absolute URL",
		"http://":             "the URL has no host",
		"http:/a.test":        "the URL has no host",
		"http:a.test":         "the URL has no host",
		"http://a.test:0/":    `port "0"`,
		"http://a.test:65536": `port "65536"`,
		"http://a.test:x/":    "bad URL",
		"http://a.te st/":     "bad URL",
		"http://a.test/\n":    "bad URL",
		"http://a..test/":     `"a..test" is no host name`,
		"http://a.test../":    `"a.test.." is no host name`,
		"http://*.test/":      `"*.test" is no host name`,
		"http://a\u202e.test": `is no host name`,
		"http://" + strings.Repeat("a", 64) + ".test/":   `is no host name`,
		"http://" + strings.Repeat("a.", 130) + "test/":  `is no host name`,
		"http://a.test/" + strings.Repeat("a", maxURL):   "at most 8192 fit",
		strings.Replace(s.URL, "http", "https", 1) + "/": "TLS failed: the server does not speak it",
	} {
		retry := !strings.Contains(want, "refused") && !strings.HasPrefix(want, "no such") && !strings.HasPrefix(want, "TLS")
		if in == "no.where" {
			in = "http://no.where/"
		}
		failed(t, call(t, d, nil, fields{"url": in}), retry, want)
	}
	for name, in := range map[string]fields{
		"get has no body":      {"url": s.URL, "body": "x"},
		"a HEAD":               {"url": s.URL, "method": "HEAD", "body": "x"},
		"a OPTIONS":            {"url": s.URL, "method": "OPTIONS", "body": "x"},
		"at most 1048576 fit":  {"url": s.URL, "method": "POST", "body": strings.Repeat("x", maxRequestBody+1)},
		"header Host cannot":   {"url": s.URL, "headers": fields{"hOST": "b.test"}},
		"Content-Length":       {"url": s.URL, "headers": fields{"content-length": "1"}},
		"Transfer-Encoding":    {"url": s.URL, "headers": fields{"Transfer-Encoding": "chunked"}},
		"header Connection":    {"url": s.URL, "headers": fields{"Connection": "x-secret"}},
		"Proxy-Authorization":  {"url": s.URL, "headers": fields{"proxy-authorization": "x"}},
		"header Upgrade":       {"url": s.URL, "headers": fields{"upgrade": "h2c"}},
		"Accept-Encoding":      {"url": s.URL, "headers": fields{"Accept-Encoding": "br"}},
		`"" is no name`:        {"url": s.URL, "headers": fields{"": "x"}},
		`"a b" is no name`:     {"url": s.URL, "headers": fields{"a b": "x"}},
		`"a\r\nb: c" is no`:    {"url": s.URL, "headers": fields{"a\r\nb: c": "x"}},
		`":path" is no name`:   {"url": s.URL, "headers": fields{":path": "x"}},
		`"é" is no name`:       {"url": s.URL, "headers": fields{"é": "x"}},
		"X-A holds a control":  {"url": s.URL, "headers": fields{"X-A": "a\nHost: b"}},
		"X-B holds a control":  {"url": s.URL, "headers": fields{"X-B": "a\rb"}},
		"X-C holds a control":  {"url": s.URL, "headers": fields{"X-C": "a\x00"}},
		"X-D is there twice":   {"url": s.URL, "headers": fields{"x-d": "a", "X-D": "b"}},
		"more than 16384 byte": {"url": s.URL, "headers": fields{"X-E": strings.Repeat("x", maxHeaders)}},
	} {
		want := strings.Replace(name, "get has", "a GET request has", 1)
		failed(t, call(t, d, nil, in), true, want)
	}
	for _, in := range []fields{{}, {"url": ""}, {"url": s.URL, "method": "get"}, {"url": s.URL, "method": "TRACE"}, {"url": s.URL, "method": "CONNECT"},
		{"url": s.URL, "headers": fields{"a": 1}}, {"url": s.URL, "proxy": "x"}, {"URL": s.URL}, {"url": []string{s.URL}}} {
		assert.Equal(t, tool.InvalidArguments, call(t, d, nil, in).Code, "%v", in)
	}
	assert.Empty(t, s.requests())
}

func TestFetchAllowIsChecked(t *testing.T) {
	for _, entry := range []string{"", " ", "*", "*.test", "a.test:80", "http://a.test", "a/b", "10.0.0.0/33", "10.0.0.1/8", "::ffff:10.0.0.0/8",
		"10.0.0", "10.0.0.0.0", "2130706433", "0x7f.1", "0177.0.0.1", "fe80::1%eth0", "fe80::%eth0/64", "[::1", "1.2.3.4/", "a..b", "a b", "a\n"} {
		_, err := Fetch(FetchConfig{Allow: []string{"ok.test", entry}})
		require.True(t, fault.IsConfig(err), "%q: %v", entry, err)
		assert.Contains(t, err.Error(), "fetch.allow[1]", entry)
		assert.Error(t, CheckAllow(entry), entry)
	}
	for entry, want := range map[string]string{
		"10.0.0.0/8": "10.255.0.1", "10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "::ffff:10.0.0.0/104": "10.1.1.1",
		"[::1]": "::1", "::1": "::1", "fd00::/8": "fd12::1", "0.0.0.0/0": "127.0.0.1", "１２７.0.0.1": "127.0.0.1", "127.0.0.1.": "127.0.0.1",
	} {
		f, err := newFetcher(FetchConfig{Allow: []string{entry}})
		require.NoError(t, err, entry)
		assert.True(t, f.allow.admits(netip.MustParseAddr(want)), entry)
		assert.True(t, f.allow.admits(netip.AddrFrom16(netip.MustParseAddr(want).As16())), entry)
		assert.False(t, f.allow.admits(netip.MustParseAddr("172.16.0.1")) && entry != "0.0.0.0/0", entry)
	}
}
