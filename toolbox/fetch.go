package toolbox

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/assent-dev/assent/tool"
)

// The bounds of one call of fetch.
const (
	// maxFetch bounds a call, all redirects included; the tool's Timeout comes after it, so that the model hears why.
	maxFetch     = 50 * time.Second
	maxRedirects = 10
	// maxBody is how many bytes of a response are read, after decompression.
	maxBody        = 1 << 20
	maxRequestBody = 1 << 20
	maxURL         = 8 << 10
	// maxWireHeaders is what a server may send before it is cut off; maxHeaders is what a model gets.
	maxWireHeaders = 256 << 10
	maxHeaders     = 16 << 10
)

// FetchConfig configures the tool fetch. Its zero value reaches public addresses only.
type FetchConfig struct {
	// Allow admits targets that are not public: a host name with whatever it resolves to, an IP address, or a CIDR
	// prefix. It never admits what a rule refuses. CheckAllow says what an entry may be.
	Allow []string

	// Seams of the tests: how names are resolved, who is trusted, and how long a call may take.
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	roots  *x509.CertPool
	limit  time.Duration
}

type fetchArgs struct {
	URL     string            `json:"url" jsonschema:"minLength=1" jsonschema_description:"an absolute http or https URL, without user name and password"`
	Method  string            `json:"method,omitempty" jsonschema:"enum=GET,enum=HEAD,enum=POST,enum=PUT,enum=PATCH,enum=DELETE,enum=OPTIONS,default=GET"`
	Headers map[string]string `json:"headers,omitempty" jsonschema_description:"request headers by name, for example Accept or Content-Type"`
	Body    string            `json:"body,omitempty" jsonschema_description:"the request body, as text; for POST, PUT, PATCH and DELETE"`
}

// Fetched is the result of fetch: the last response, whatever its status.
type Fetched struct {
	// URL is the one that answered, after all redirects.
	URL    string `json:"url"`
	Status int    `json:"status"`
	// Headers are those of the response; HeadersTruncated says that some were left out.
	Headers          map[string][]string `json:"headers"`
	HeadersTruncated bool                `json:"headersTruncated,omitempty"`
	// Body is text, or base64 if Encoding says so.
	Body     string `json:"body"`
	Encoding string `json:"encoding,omitempty"`
	// Truncated says that Body is only the beginning; TruncatedBy is size, time, or what went wrong.
	Truncated   bool   `json:"truncated,omitempty"`
	TruncatedBy string `json:"truncatedBy,omitempty"`
	// Redirects are the answers that led to URL.
	Redirects []Redirect `json:"redirects,omitempty"`
}

// Redirect is an answer that named another URL.
type Redirect struct {
	URL    string `json:"url"`
	Status int    `json:"status"`
}

// Fetch returns the tool fetch, which makes one HTTP request and follows its redirects; its result is a Fetched. Before
// every connection it checks the scheme, the host and every address of the host against the rules of the call, and the
// addresses against FetchConfig.Allow; what was checked is what is dialled. Proxies of the environment are not used. A
// bad configuration is a *fault.ConfigError.
func Fetch(cfg FetchConfig) (*tool.Def, error) {
	f, err := newFetcher(cfg)
	if err != nil {
		return nil, err
	}
	return tool.New("fetch",
		"Make one HTTP request and return the response. Redirects are followed, at most 10. A status of 400 or more is a result, not an error. "+
			"At most 1 MiB of the body is returned, as text, or in base64 if it is not UTF-8. There are no cookies. "+
			"Only public addresses are reached, and others that the operator admits; every redirect is checked like the first URL.",
		f.run, tool.Network, tool.Timeout(time.Minute))
}

type fetcher struct {
	allow allowList
	FetchConfig
}

func (f *fetcher) run(ctx context.Context, call *tool.Context, in fetchArgs) (Fetched, error) {
	first, err := f.request(in)
	if refused := (tool.Refused)(nil); errors.As(err, &refused) {
		return Fetched{}, fmt.Errorf("fetch %s: %w", quoteURL(in.URL), err)
	}
	if err != nil {
		return Fetched{}, tool.ModelRetry{Message: fmt.Sprintf("fetch %s: %v", quoteURL(in.URL), err)}
	}
	limited, cancel := context.WithTimeoutCause(ctx, f.limit, errFetchTime)
	defer cancel()
	got, err := f.follow(limited, call.Rules, first)
	if err != nil {
		if ctx.Err() != nil {
			return Fetched{}, context.Cause(ctx)
		}
		return Fetched{}, fmt.Errorf("fetch %s: %w", quoteURL(in.URL), fetchProblem(limited, err))
	}
	return got, nil
}

// hop is one request of a call.
type hop struct {
	target  target
	method  string
	headers http.Header
	body    string
}

// request makes the first hop of a call's arguments. Its errors are the model's to mend.
func (f *fetcher) request(in fetchArgs) (hop, error) {
	if len(in.URL) > maxURL {
		return hop{}, fmt.Errorf("the URL has %d bytes, at most %d fit", len(in.URL), maxURL)
	}
	u, err := url.Parse(in.URL)
	if err != nil {
		return hop{}, badURL(err)
	}
	h := hop{method: in.Method, body: in.Body}
	if h.target, err = newTarget(u); err != nil {
		return hop{}, err
	}
	if h.headers, err = requestHeaders(in.Headers); err != nil {
		return hop{}, err
	}
	switch {
	case len(in.Body) > maxRequestBody:
		return hop{}, fmt.Errorf("the body has %d bytes, at most %d fit", len(in.Body), maxRequestBody)
	case in.Body != "" && !hasBody(in.Method):
		return hop{}, fmt.Errorf("a %s request has no body", in.Method)
	}
	return h, nil
}

func hasBody(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// follow makes requests until one is not redirected.
func (f *fetcher) follow(ctx context.Context, rules tool.Rules, h hop) (Fetched, error) {
	var redirects []Redirect
	for {
		got, next, err := f.step(ctx, rules, h, len(redirects) == 0)
		if err != nil {
			if len(redirects) > 0 {
				err = fmt.Errorf("redirected to %s: %w", quoteURL(h.target.String()), err)
			}
			return Fetched{}, err
		}
		if next == "" {
			got.Redirects = redirects
			return got, nil
		}
		redirects = append(redirects, Redirect{URL: got.URL, Status: got.Status})
		if len(redirects) > maxRedirects {
			return Fetched{}, fmt.Errorf("more than %d redirects, the last one to %s", maxRedirects, quoteURL(next))
		}
		if h, err = h.redirect(got.Status, next); err != nil {
			return Fetched{}, fmt.Errorf("redirected to %s: %w", quoteURL(next), err)
		}
	}
}

// step makes one request, on a connection of its own. next is where the answer redirects to, if it does.
func (f *fetcher) step(ctx context.Context, rules tool.Rules, h hop, first bool) (got Fetched, next string, err error) {
	addrs, err := f.check(ctx, rules, h.target, first)
	if err != nil {
		return Fetched{}, "", err
	}
	req, err := http.NewRequestWithContext(ctx, h.method, h.target.String(), strings.NewReader(h.body))
	if err != nil {
		return Fetched{}, "", err
	}
	req.Header = h.headers.Clone()
	transport := f.transport(addrs, h.target.port)
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return Fetched{}, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// Its body is the bare connection, which the time of the call would not end.
		return Fetched{}, "", errors.New("the server switches to another protocol, which nobody asked for")
	}
	got = Fetched{URL: h.target.String(), Status: resp.StatusCode}
	if next = location(resp); next != "" {
		return got, next, nil
	}
	got.Headers, got.HeadersTruncated = responseHeaders(resp.Header)
	err = got.read(ctx, resp.Body)
	return got, "", err
}

// location returns where a response redirects to, as net/http reads it, or nothing.
func location(resp *http.Response) string {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return resp.Header.Get("Location")
	}
	return ""
}

// redirect makes the request that follows an answer. Its method and body are those of net/http; of its headers, another
// origin gets only those that hold no secret.
func (h hop) redirect(status int, to string) (hop, error) {
	if len(to) > maxURL {
		return hop{}, fmt.Errorf("the URL has %d bytes, at most %d fit", len(to), maxURL)
	}
	u, err := h.target.url.Parse(to)
	if err != nil {
		return hop{}, badURL(err)
	}
	next := hop{method: h.method, body: h.body, headers: h.headers.Clone()}
	if next.target, err = newTarget(u); err != nil {
		return hop{}, err
	}
	if h.target.url.Scheme == "https" && next.target.url.Scheme == "http" {
		return hop{}, refuse("https is not left for http")
	}
	if status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect {
		next.body = ""
		if next.method != http.MethodHead {
			next.method = http.MethodGet
		}
		dropHeaders(next.headers, aboutBody)
	}
	if next.target.origin() != h.target.origin() {
		dropHeaders(next.headers, func(name string) bool { return !carried[name] })
	}
	return next, nil
}
