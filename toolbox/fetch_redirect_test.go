package toolbox

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

// redirector answers /STATUS?URL with that status and URL, and everything else with what it was sent.
func redirector(w http.ResponseWriter, r *http.Request) {
	var status int
	if n, _ := fmt.Sscanf(r.URL.Path, "/%d", &status); n == 1 {
		w.Header()["Location"] = []string{r.URL.RawQuery}
		w.WriteHeader(status)
		return
	}
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %q", r.Method, r.URL.Path, body)
}

func TestRedirectsAreThoseOfNetHTTP(t *testing.T) {
	s := newSite(t, redirector)
	d := newFetch(t, open())
	for _, status := range []int{300, 301, 302, 303, 304, 305, 306, 307, 308, 399} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			body := ""
			if hasBody(method) {
				body = "the body"
			}
			for _, to := range []string{s.URL + "/end", "/end", "end", "?x", ""} {
				if to == "?x" {
					to = "/307?/end" // twice
				}
				start := fmt.Sprintf("%s/%d?%s", s.URL, status, to)
				req, err := http.NewRequest(method, start, strings.NewReader(body))
				require.NoError(t, err)
				resp, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				want, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())

				got := fetched(t, d, nil, fields{"url": start, "method": method, "body": body})
				what := fmt.Sprint(method, " ", start)
				assert.Equal(t, resp.StatusCode, got.Status, what)
				assert.Equal(t, string(want), got.Body, what)
				assert.Equal(t, resp.Request.URL.String(), got.URL, what)
			}
		}
	}
	got := fetched(t, d, nil, fields{"url": s.at("a.test", "/302?"+s.at("b.test", "/307?/end"))})
	assert.Equal(t, []Redirect{{s.at("a.test", "/302?"+s.at("b.test", "/307?/end")), 302}, {s.at("b.test", "/307?/end"), 307}}, got.Redirects)
	assert.Equal(t, s.at("b.test", "/end"), got.URL)
}

func TestRedirectsAreJudged(t *testing.T) {
	target := newSite(t, func(http.ResponseWriter, *http.Request) {})
	s := newSite(t, redirector)
	cfg := open()
	cfg.Allow = []string{"a.test", "b.test", "evil.test", "x.ask.test", "asked.test", "127.0.0.1"}
	names := &dns{answers: map[string][]string{"in.test": {"10.0.0.7"}}}
	cfg.lookup = func(ctx ctx, host string) (addrs, error) {
		if host == "in.test" {
			return names.lookup(ctx, host)
		}
		return local(ctx, host)
	}
	d := newFetch(t, cfg)
	reasoned := hosts("evil.test")
	reasoned.Reason = "they are evil"
	rules := policy(t, permission.Layer{Deny: []permission.Rule{reasoned}, Ask: []permission.Rule{hosts("asked.test", "*.ask.test")}})
	for to, want := range map[string][2]string{
		target.at("evil.test", "/"):   {"deny-rule {tool: fetch, domains: [evil.test]}", "they are evil"},
		target.at("EVIL.test.", "/"):  {"deny-rule {tool: fetch, domains: [evil.test]}", "they are evil"},
		target.at("ｅvil.test", "/"):   {"deny-rule {tool: fetch, domains: [evil.test]}", "they are evil"},
		target.at("asked.test", "/"):  {`ask-rule {tool: fetch, domains: [asked.test, "*.ask.test"]}`, "fetch asked.test in a call of its own"},
		target.at("x.ask.test", "/"):  {`ask-rule {tool: fetch, domains: [asked.test, "*.ask.test"]}`, "nobody can be asked any more"},
		target.at("in.test", "/"):     {"worker.fetch.allow", "in.test is 10.0.0.7, a private address"},
		"http://127.0.0.2/":           {"worker.fetch.allow", "127.0.0.2, a loopback address"},
		"http://[::1]/":               {"worker.fetch.allow", "::1, a loopback address"},
		"http://169.254.169.254/meta": {"worker.fetch.allow", "169.254.169.254, a cloud's metadata address"},
		"http://2130706433/":          {"fetch", "is no host name"},
		"http://[fe80::1%25lo]/":      {"fetch", "has a zone"},
		"http://u:p@b.test/":          {"fetch", "user name"},
		"//u@b.test/":                 {"fetch", "user name"},
		"file:///etc/passwd":          {"fetch", "only http and https are fetched, not file"},
		"gopher://b.test/":            {"fetch", "not gopher"},
		"javascript:alert(1)":         {"fetch", "not javascript"},
		"data:text/plain,x":           {"fetch", "not data"},
	} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			for _, method := range []string{"GET", "POST"} {
				refused(t, call(t, d, rules, fields{"url": s.at("a.test", fmt.Sprintf("/%d?%s", status, to)), "method": method}), want[0], want[1])
			}
		}
		// Also behind a redirect that is fine.
		refused(t, call(t, d, rules, fields{"url": s.at("a.test", "/302?"+s.at("b.test", "/302?"+to))}), want[0], want[1])
	}
	for to, want := range map[string]string{
		"http://":                           "the URL has no host",
		"http://b.test:0/":                  `port "0"`,
		"http://b.test:x/":                  "bad URL",
		"http://b%00.test/":                 "bad URL",
		"http://a..b/":                      "is no host name",
		"http://nobody.zone":                "no such host",
		"/" + strings.Repeat("x", maxURL+1): "at most",
	} {
		start := s.at("a.test", "/302?"+to)
		if len(start) > maxURL {
			start = s.at("a.test", "/long")
			s.Config.Handler = s.counting(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", to)
				w.WriteHeader(http.StatusFound)
			})
		}
		r := call(t, d, rules, fields{"url": start})
		failed(t, r, false, want)
		assert.LessOrEqual(t, len(r.Failure.Message), 1500)
		s.Config.Handler = s.counting(redirector)
	}
	assert.Empty(t, target.requests())
}

// Who was asked about the first URL was not asked about the next one, even on the same host.
func TestAnAskHoldsAfterTheFirstURL(t *testing.T) {
	s := newSite(t, redirector)
	d := newFetch(t, open())
	rules := policy(t, permission.Layer{Ask: []permission.Rule{hosts("a.test")}})
	fetched(t, d, rules, fields{"url": s.at("a.test", "/end")})
	refused(t, call(t, d, rules, fields{"url": s.at("a.test", "/302?/end")}), "ask-rule {tool: fetch, domains: [a.test]}", "fetch a.test in a call of its own")
	assert.Equal(t, []string{"/end", "/302?/end"}, paths(s.requests()))
}

func paths(requests []string) []string {
	var out []string
	for _, r := range requests {
		_, path, _ := strings.Cut(r, "/")
		out = append(out, "/"+path)
	}
	return out
}

// A rule that fails or says what is no refusal stops the call all the same; one that panics takes nothing along.
func TestBrokenRulesFetchNothing(t *testing.T) {
	s := newSite(t, redirector)
	d := newFetch(t, open())
	assert.Equal(t, tool.Denied, call(t, d, hostRule(func(string, bool) error { return io.EOF }), fields{"url": s.URL}).Code)
	failed(t, call(t, d, hostRule(func(string, bool) error { panic("x") }), fields{"url": s.URL}), false, "panicked")
	assert.Empty(t, s.requests())
}

type hostRule func(host string, asked bool) error

func (hostRule) Argv([]string) error                  { return nil }
func (r hostRule) Host(host string, asked bool) error { return r(host, asked) }

func TestRedirectsEnd(t *testing.T) {
	var s *site
	s = newSite(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
		if n == 0 {
			return
		}
		http.Redirect(w, r, fmt.Sprintf("%s/%d", s.URL, n-1), http.StatusFound)
	})
	d := newFetch(t, open())
	assert.Len(t, fetched(t, d, nil, fields{"url": s.URL + "/10"}).Redirects, 10)
	assert.Len(t, s.requests(), 11)
	failed(t, call(t, d, nil, fields{"url": s.URL + "/11"}), false, "more than 10 redirects")
	assert.Len(t, s.requests(), 22)
	loop := newSite(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	failed(t, call(t, d, nil, fields{"url": loop.URL}), false, "more than 10 redirects")
}

func TestSecretsStayWithTheirOrigin(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/3") {
			redirector(w, r)
			return
		}
		for name := range r.Header {
			fmt.Fprintf(w, "%s\n", name)
		}
	}
	s, other := newSite(t, echo), newSite(t, echo)
	d := newFetch(t, open())
	headers := fields{"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Private-Token": "t", "Referer": "https://secret/", "Accept": "text/plain", "Content-Type": "text/x"}
	names := func(url string) []string {
		return strings.Fields(fetched(t, d, nil, fields{"url": url, "method": "POST", "body": "x", "headers": headers}).Body)
	}
	all := []string{"Authorization", "Cookie", "X-Api-Key", "Private-Token", "Referer", "Accept", "User-Agent", "Accept-Encoding", "Connection"}
	withBody := append([]string{"Content-Type", "Content-Length"}, all...)
	few := []string{"Accept", "User-Agent", "Accept-Encoding", "Connection"}
	assert.ElementsMatch(t, withBody, names(s.at("a.test", "/end")))
	assert.ElementsMatch(t, withBody, names(s.at("a.test", "/307?/end")))
	assert.ElementsMatch(t, all, names(s.at("a.test", "/302?/end")))
	for _, to := range []string{s.at("b.test", "/end"), s.at("x.a.test", "/end"), s.at("a.test.evil.test", "/end"), other.at("a.test", "/end"),
		s.at("b.test", "/302?"+s.at("a.test", "/end"))} { // what is gone does not come back
		assert.ElementsMatch(t, few, names(s.at("a.test", "/302?"+to)), to)
		if !strings.Contains(to, "/302") {
			assert.ElementsMatch(t, append([]string{"Content-Type", "Content-Length"}, few...), names(s.at("a.test", "/308?"+to)), to)
		}
	}
}

func TestHTTPSIsNotLeft(t *testing.T) {
	plain := newSite(t, redirector)
	s := &site{}
	s.Server = httptest.NewUnstartedServer(s.counting(redirector))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	cfg := open()
	failed(t, call(t, newFetch(t, cfg), nil, fields{"url": s.at("example.com", "/")}), false, "TLS failed: ")
	assert.Empty(t, s.requests(), "its certificate is not trusted")

	cfg.roots = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	d := newFetch(t, cfg)
	failed(t, call(t, d, nil, fields{"url": s.at("a.test", "/")}), false, "TLS failed: ") // another name
	assert.Equal(t, `GET /end ""`, fetched(t, d, nil, fields{"url": s.at("example.com", "/302?/end")}).Body)
	assert.Equal(t, `GET /end ""`, fetched(t, d, nil, fields{"url": plain.at("a.test", "/302?"+s.at("example.com", "/end"))}).Body)
	before := len(plain.requests())
	refused(t, call(t, d, nil, fields{"url": s.at("example.com", "/302?"+plain.at("a.test", "/end"))}), "fetch", "https is not left for http")
	refused(t, call(t, d, nil, fields{"url": s.at("example.com", "/302?http://example.com/")}), "fetch", "https is not left for http")
	assert.Len(t, plain.requests(), before)
}

// Names that answer differently from one moment to the next: what was checked is what is dialled.
func TestRebinding(t *testing.T) {
	inner := newSite(t, redirector)
	t.Run("between two requests", func(t *testing.T) {
		names := &dns{answers: map[string][]string{"re.test": {"127.0.0.9", "127.0.0.1"}}}
		_, port, _ := strings.Cut(strings.TrimPrefix(inner.URL, "http://"), ":")
		outer := newSiteAt(t, "127.0.0.9:"+port, redirector)
		d := newFetch(t, FetchConfig{Allow: []string{"127.0.0.9"}, lookup: names.lookup})
		refused(t, call(t, d, nil, fields{"url": inner.at("re.test", "/302?/end")}), "worker.fetch.allow", "re.test is 127.0.0.1, a loopback address")
		assert.Len(t, outer.requests(), 1)
		assert.Equal(t, []string{"re.test", "re.test"}, names.asked, "one question for each connection")
	})
	t.Run("between check and connection", func(t *testing.T) {
		names := &dns{answers: map[string][]string{"re.test": {"127.0.0.9", "127.0.0.1"}}}
		d := newFetch(t, FetchConfig{Allow: []string{"127.0.0.9"}, lookup: names.lookup})
		failed(t, call(t, d, nil, fields{"url": newSite(t, redirector).at("re.test", "/")}), false, "connection refused") // nothing listens on 127.0.0.9
		assert.Equal(t, []string{"re.test"}, names.asked)
	})
	t.Run("the next address when one does not answer", func(t *testing.T) {
		names := &dns{answers: map[string][]string{"re.test": {"127.0.0.8 127.0.0.1", "127.0.0.1"}}}
		d := newFetch(t, FetchConfig{Allow: []string{"127.0.0.0/8"}, lookup: names.lookup})
		assert.Equal(t, 200, fetched(t, d, nil, fields{"url": inner.at("re.test", "/")}).Status)
		assert.Equal(t, []string{"re.test"}, names.asked)
	})
	assert.Equal(t, 1, len(inner.requests()))
	assert.Error(t, only("127.0.0.1:80")("tcp4", "127.0.0.2:80", nil))
	assert.Error(t, only("127.0.0.1:80")("tcp4", "127.0.0.1:81", nil))
	assert.Error(t, only("127.0.0.1:80")("tcp4", "nonsense", nil))
	assert.NoError(t, only("[::1]:80")("tcp6", "[::1]:80", nil))
}
