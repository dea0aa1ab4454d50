package toolbox

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
)

type (
	ctx   = context.Context
	addrs = []netip.Addr
)

// newSiteAt is a site on an address of its own; the test is skipped where there is none.
func newSiteAt(t *testing.T, address string, h http.HandlerFunc) *site {
	l, err := net.Listen("tcp4", address)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("this machine has no second loopback address %s: %v", address, err)
	}
	return newSiteOn(t, l, h)
}

func newSiteOn(t *testing.T, l net.Listener, h http.HandlerFunc) *site {
	s := &site{}
	s.Server = httptest.NewUnstartedServer(s.counting(h))
	require.NoError(t, s.Listener.Close())
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func TestBodiesAreBounded(t *testing.T) {
	bodies := map[string]func(w http.ResponseWriter){
		"fits":       func(w http.ResponseWriter) { fmt.Fprint(w, strings.Repeat("x", maxBody)) },
		"one more":   func(w http.ResponseWriter) { fmt.Fprint(w, strings.Repeat("x", maxBody+1)) },
		"endless":    func(w http.ResponseWriter) { endless(w, []byte(strings.Repeat("x", 1<<16))) },
		"cut rune":   func(w http.ResponseWriter) { fmt.Fprint(w, "x"+strings.Repeat("é", maxBody)) },
		"cut binary": func(w http.ResponseWriter) { _, _ = w.Write(bytes.Repeat([]byte{0xff, 0xc3}, maxBody)) },
		"bomb": func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 16 {
				_, _ = z.Write(make([]byte, 1<<20))
			}
			_ = z.Close()
		},
		"bad gzip": func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, "this is not gzip")
		},
		"early end": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "early")
		},
		"binary": func(w http.ResponseWriter) { _, _ = w.Write([]byte{0, 1, 0xff}) },
		"nul":    func(w http.ResponseWriter) { _, _ = w.Write([]byte("a\x00b")) },
		"empty":  func(http.ResponseWriter) {},
	}
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { bodies[strings.ReplaceAll(r.URL.Path[1:], "_", " ")](w) })
	d := newFetch(t, open())
	get := func(name string) Fetched {
		return fetched(t, d, nil, fields{"url": s.at("a.test", "/"+strings.ReplaceAll(name, " ", "_"))})
	}
	size := func(f Fetched) int {
		if f.Encoding == "" {
			return len(f.Body)
		}
		raw, err := base64.StdEncoding.DecodeString(f.Body)
		require.NoError(t, err)
		return len(raw)
	}
	for name, want := range map[string]Fetched{
		"fits": {}, "one more": {TruncatedBy: "size"}, "endless": {TruncatedBy: "size"}, "cut rune": {TruncatedBy: "size"},
		"cut binary": {TruncatedBy: "size", Encoding: "base64"}, "bomb": {TruncatedBy: "size", Encoding: "base64"},
	} {
		got := get(name)
		wantSize := maxBody
		if name == "cut rune" {
			wantSize--
		}
		assert.Equal(t, wantSize, size(got), name)
		assert.Equal(t, want.TruncatedBy, got.TruncatedBy, name)
		assert.Equal(t, want.TruncatedBy != "", got.Truncated, name)
		assert.Equal(t, want.Encoding, got.Encoding, name)
	}
	assert.Equal(t, "gzip: invalid header", get("bad gzip").TruncatedBy)
	early := get("early end")
	assert.Equal(t, []string{"early", "the server ended it early"}, []string{early.Body, early.TruncatedBy})
	assert.Equal(t, []string{"AAH/", "base64"}, []string{get("binary").Body, get("binary").Encoding})
	assert.Equal(t, []string{"YQBi", "base64"}, []string{get("nul").Body, get("nul").Encoding})
	assert.Equal(t, Fetched{}.Body, get("empty").Body)
}

func endless(w http.ResponseWriter, chunk []byte) {
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func TestHeadersAreBounded(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		size := 100
		if r.URL.Path == "/huge" {
			size = 4 * maxWireHeaders / 500
		}
		for i := range 500 {
			w.Header().Set(fmt.Sprintf("X-%03d", i), strings.Repeat("x", size))
		}
	})
	d := newFetch(t, open())
	got := fetched(t, d, nil, fields{"url": s.URL})
	assert.True(t, got.HeadersTruncated)
	b, err := json.Marshal(got.Headers)
	require.NoError(t, err)
	assert.Less(t, len(b), 2*maxHeaders)
	assert.NotEmpty(t, got.Headers["X-000"])
	failed(t, call(t, d, nil, fields{"url": s.URL + "/huge"}), false, "header")
}

// hang serves connections that get stuck at a point, and counts those that are open. With TLS they speak HTTP/2.
func hang(t *testing.T, tls bool) (s *site, open *atomic.Int64) {
	open = &atomic.Int64{}
	s = &site{}
	s.Server = httptest.NewUnstartedServer(s.counting(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/silent", http.StatusFound)
			return
		case "/drip":
			fmt.Fprint(w, "drop")
			w.(http.Flusher).Flush()
		}
		if r.TLS != nil && r.ProtoMajor != 2 {
			panic("this is not HTTP/2")
		}
		<-r.Context().Done()
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	if s.EnableHTTP2 = tls; tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s, open
}

// mute accepts connections and says nothing.
func mute(t *testing.T) string {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	return l.Addr().String()
}

func TestCancellationLeavesNothing(t *testing.T) {
	s, connections := hang(t, false)
	second, streams := hang(t, true)
	silent := mute(t)
	entered := make(chan struct{}, 1)
	cfg := open()
	cfg.roots = second.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	cfg.lookup = func(ctx ctx, host string) (addrs, error) {
		if host == "slow.test" {
			entered <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return local(ctx, host)
	}
	d := newFetch(t, cfg)
	before := runtime.NumGoroutine()
	for _, to := range []string{s.URL + "/silent", s.URL + "/drip", s.URL + "/redirect", second.URL + "/silent", second.URL + "/drip", second.URL + "/redirect",
		"http://slow.test/", "https://" + silent + "/"} {
		ctx, cancel := context.WithCancel(t.Context())
		of := s
		if strings.HasPrefix(to, second.URL) {
			of = second
		}
		seen := len(of.requests())
		go func() {
			defer cancel()
			switch {
			case strings.Contains(to, "slow"):
				<-entered
			case strings.HasPrefix(to, of.URL):
				want := seen + 1 + strings.Count(to, "/redirect")
				for len(of.requests()) < want && t.Context().Err() == nil {
					time.Sleep(tick)
				}
			default:
				time.Sleep(5 * tick) // it may also be cancelled while it connects
			}
		}()
		input, err := json.Marshal(fields{"url": to})
		require.NoError(t, err)
		r := d.Invoke(ctx, &tool.Context{}, input)
		require.Equal(t, tool.Aborted, r.Code, "%s: %+v", to, r.Failure)
		assert.True(t, r.Failure.Started)
	}
	require.Eventually(t, func() bool { return connections.Load() == 0 && streams.Load() == 0 }, patience, tick)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 }, patience, tick)
}

// What is not over in time ends by itself, and says so.
func TestTimeIsBounded(t *testing.T) {
	s, connections := hang(t, false)
	cfg := open()
	cfg.limit = 300 * time.Millisecond
	d := newFetch(t, cfg)
	failed(t, call(t, d, nil, fields{"url": s.URL + "/silent"}), false, "no whole answer in time")
	failed(t, call(t, d, nil, fields{"url": s.URL + "/redirect"}), false, "no whole answer in time")
	failed(t, call(t, d, nil, fields{"url": "https://" + mute(t) + "/"}), false, "no whole answer in time")
	var r tool.Result
	for ; !r.IsOK() && cfg.limit < patience; cfg.limit *= 2 { // the first drop must come
		r = call(t, newFetch(t, cfg), nil, fields{"url": s.URL + "/drip"})
	}
	require.True(t, r.IsOK(), "%+v", r.Failure)
	var got Fetched
	require.NoError(t, json.Unmarshal(r.Value, &got))
	assert.Equal(t, []string{"drop", "time"}, []string{got.Body, got.TruncatedBy})
	assert.True(t, got.Truncated)
	require.Eventually(t, func() bool { return connections.Load() == 0 }, patience, tick)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	input, err := json.Marshal(fields{"url": s.URL + "/silent"})
	require.NoError(t, err)
	r = newFetch(t, open()).Invoke(ctx, nil, input)
	assert.Equal(t, tool.ToolError, r.Code, "the deadline of the caller is the caller's to name")
	assert.Contains(t, r.Failure.Message, "deadline exceeded")
}

// A proxy of the environment would be where policy ends. net/http reads the environment once, so a process of its own
// does the fetching.
func TestNoProxyIsUsed(t *testing.T) {
	const inner = "ASSENT_TEST_PROXY"
	if os.Getenv(inner) == "" {
		proxy := newSite(t, func(http.ResponseWriter, *http.Request) {})
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxyIsUsed$")
		cmd.Env = append(os.Environ(), inner+"=1")
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
			cmd.Env = append(cmd.Env, name+"="+proxy.URL)
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Empty(t, proxy.requests())
		return
	}
	// A client that heeds the environment would use it here.
	used, err := http.ProxyFromEnvironment(httptest.NewRequest(http.MethodGet, "http://a.test/", nil))
	require.NoError(t, err)
	require.NotNil(t, used)
	s := newSite(t, redirector)
	assert.Equal(t, `GET /end ""`, fetched(t, newFetch(t, open()), nil, fields{"url": s.at("a.test", "/end")}).Body)
	refused(t, call(t, newFetch(t, FetchConfig{lookup: local}), nil, fields{"url": s.at("a.test", "/end")}), "worker.fetch.allow", "loopback")
	assert.Equal(t, []string{"GET " + strings.TrimPrefix(s.at("a.test", "/end"), "http://")}, s.requests(), "not as a proxy is asked")
}

// Every connection is a new one: none that was checked for one request serves another.
func TestNoConnectionIsUsedTwice(t *testing.T) {
	var fresh atomic.Int64
	s := &site{}
	s.Server = httptest.NewUnstartedServer(s.counting(redirector))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			fresh.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	d := newFetch(t, open())
	fetched(t, d, nil, fields{"url": s.at("a.test", "/302?/307?/end")})
	fetched(t, d, nil, fields{"url": s.at("a.test", "/end")})
	assert.Len(t, s.requests(), 4)
	assert.EqualValues(t, 4, fresh.Load())
}

// A server that switches protocols hands over the connection, which no context closes.
func TestProtocolsAreNotSwitched(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, err = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello"))
		}
		assert.NoError(t, err)
		_, _ = conn.Read(make([]byte, 1)) // until the client closes it
		_ = conn.Close()
	})
	failed(t, call(t, newFetch(t, open()), nil, fields{"url": s.URL}), false, "switches to another protocol")
}
