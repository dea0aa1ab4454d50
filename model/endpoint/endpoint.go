package endpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/secret"
	"github.com/assent-dev/assent/model"
)

// Key says where a key is, and Secret is one that was read.
type (
	Key    = secret.Key
	Secret = secret.Secret
)

// The bounds of a turn that a Config leaves out.
const (
	// DefaultTimeout is less than what the engine gives a turn, so that the reason is told.
	DefaultTimeout = 12 * time.Minute
	// DefaultSilence allows for a local server that loads a model, and for a model that thinks and shows nothing of it.
	DefaultSilence = 5 * time.Minute
)

// The headers that can carry a key.
const (
	// Bearer is `Authorization: Bearer KEY`.
	Bearer = "bearer"
	// XAPIKey is `X-Api-Key: KEY`.
	XAPIKey = "x-api-key"
)

// Config says where an API is and how to talk to it.
type Config struct {
	// BaseURL is what paths are appended to, with scheme and host.
	BaseURL string
	Key     Key
	// Auth is Bearer or XAPIKey.
	Auth string
	// Headers are added to each request. They are no place for secrets: Key is.
	Headers map[string]string
	// Timeout bounds a turn as a whole, Silence the time without a byte from the provider; zero is the default.
	Timeout, Silence time.Duration
}

// Endpoint is a checked Config and its HTTP client. It is safe for concurrent use.
type Endpoint struct {
	cfg       Config
	transport *transport
	client    *http.Client
}

// New checks c and reads the key once, so that what is wrong with it is found at start. Nothing is sent. Errors are
// *fault.ConfigError.
func New(c Config) (*Endpoint, error) {
	if _, err := BaseURL(c.BaseURL); err != nil {
		return nil, err
	}
	if c.Auth != Bearer && c.Auth != XAPIKey {
		e := fault.Configf("auth", "unknown way to send a key %q", c.Auth)
		e.Allowed = []string{Bearer, XAPIKey}
		return nil, e
	}
	for name, value := range c.Headers {
		if err := CheckHeader(name, value); err != nil {
			return nil, err
		}
	}
	if c.Timeout < 0 || c.Silence < 0 {
		return nil, fault.Configf("timeout", "is negative")
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Silence == 0 {
		c.Silence = DefaultSilence
	}
	if _, err := c.Key.Read(); err != nil {
		return nil, err
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	e := &Endpoint{cfg: c, transport: &transport{next: base, cfg: c}}
	// No redirect is followed, because the transport makes an error of it: it would take the key to where nobody sent it.
	e.client = &http.Client{Transport: e.transport}
	return e, nil
}

// Client makes one attempt for each request. Its errors hold a *model.Error, or the context's error.
func (e *Endpoint) Client() *http.Client { return e.client }

// BaseURL returns the address, which ends with a slash.
func (e *Endpoint) BaseURL() string { return strings.TrimRight(e.cfg.BaseURL, "/") + "/" }

// Turn bounds a turn in time. The driver calls done when it has it. A model that still speaks when the time is over would do so
// again: that is no failure that passes.
func (e *Endpoint) Turn(ctx context.Context) (bounded context.Context, done context.CancelFunc) {
	heard := new(heard)
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, heardKey{}, heard))
	over := time.AfterFunc(e.cfg.Timeout, func() {
		late := &model.Error{Kind: KindTimeout, Msg: fmt.Sprintf("the turn did not end in %s", e.cfg.Timeout), Retry: true}
		if n := heard.bytes.Load(); n >= speaking {
			late.Kind, late.Retry = KindEndless, false
			late.Msg += fmt.Sprintf(", and the model was speaking, %d bytes so far; a longer timeout or a smaller maxOutputTokens helps", n)
		}
		cancel(late)
	})
	return ctx, func() {
		over.Stop()
		cancel(context.Canceled)
	}
}

// heardKey is where a turn's context has what was heard.
type heardKey struct{}

// heard counts the bytes of a turn's responses, and says that one of them was a stream.
type heard struct {
	bytes atomic.Int64
	begun atomic.Bool
}

// Broken is the error of a turn, which says whether an answer had begun that broke off. What a provider says itself, in a stream or
// before, is a refusal.
func Broken(ctx context.Context, err error) error {
	var m *model.Error
	h, ok := ctx.Value(heardKey{}).(*heard)
	if !ok || !h.begun.Load() || !errors.As(err, &m) || !slices.Contains([]string{KindNetwork, KindTimeout, KindCut, KindBadResponse, KindEndless}, m.Kind) {
		return err
	}
	begun := *m
	begun.Begun = true
	return &begun
}

// speaking is the number of bytes from which a stream is more than signs of life.
const speaking = 16 << 10

// Failed makes the error of a turn out of what an SDK returned: a *model.Error that holds nothing of the SDK, or the
// context's. What is neither of the network nor of the provider is a response that could not be read.
func (e *Endpoint) Failed(ctx context.Context, err error) error {
	var m *model.Error
	switch {
	case errors.As(err, &m), errors.As(context.Cause(ctx), &m):
		return m
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, bufio.ErrTooLong):
		return &model.Error{Kind: KindEndless, Msg: "a line of the stream has no end"}
	}
	return &model.Error{Kind: KindBadResponse, Msg: e.Clean("cannot be read: " + err.Error()), Retry: true}
}

// Cut is the error of a stream that ended before the turn did.
func Cut() error {
	return &model.Error{Kind: KindCut, Msg: "the stream ended before the turn did", Retry: true}
}

// Host reports whether the API is at a host, or below it.
func (e *Endpoint) Host(of string) bool {
	u, err := url.Parse(e.cfg.BaseURL)
	return err == nil && (u.Hostname() == of || strings.HasSuffix(u.Hostname(), "."+of))
}

// BaseURL parses the address of an API. Errors are *fault.ConfigError; they show no password.
func BaseURL(text string) (*url.URL, error) {
	const like = "want one such as https://api.example.com/v1"
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, fault.Configf("baseURL", "is missing; %s", like)
	case strings.ContainsAny(text, " \t\r\n"):
		return nil, fault.Configf("baseURL", "holds a space; %s", like)
	case err != nil && !strings.Contains(text, "://"), err == nil && u.Scheme != "https" && u.Scheme != "http":
		return nil, fault.Configf("baseURL", "%q has no scheme http or https; %s", withoutUser(text), like)
	case err != nil:
		return nil, fault.Configf("baseURL", "is no URL; %s", like)
	case u.User != nil:
		return nil, fault.Configf("baseURL", "holds a user or password; a key comes from keyEnv or keyFile")
	case u.Hostname() == "":
		return nil, fault.Configf("baseURL", "%q has no host; %s", withoutUser(text), like)
	case u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(text, "?") || strings.HasSuffix(text, "#"):
		return nil, fault.Configf("baseURL", "has a query or fragment; paths are appended to it")
	}
	return u, nil
}

// withoutUser cuts what may be a password.
func withoutUser(text string) string {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		return "…" + text[i:]
	}
	return text
}

// notHeaders are set from elsewhere.
var notHeaders = []string{"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie", "host", "content-type", "content-length",
	"accept", "accept-encoding", "transfer-encoding", "connection"}

// CheckHeader reports a header that cannot be added. Errors are *fault.ConfigError.
func CheckHeader(name, value string) error {
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return fault.Configf("headers", "%q is no name of a header", name)
		}
	}
	if name == "" {
		return fault.Configf("headers", "a name is empty")
	}
	for _, not := range notHeaders {
		if strings.EqualFold(name, not) {
			return fault.Configf("headers."+name, "is not set here; a key comes from keyEnv or keyFile")
		}
	}
	for _, c := range []byte(value) {
		if c < ' ' || c == 0x7f {
			return fault.Configf("headers."+name, "holds a control character")
		}
	}
	return nil
}

// Field is a member of a driver's configuration that takes one of a closed set of values.
type Field struct {
	Key, Got string
	// Allowed are the values; an empty one says that the member may be left out.
	Allowed []string
}

// CheckFields returns the first member with another value as *fault.ConfigError.
func CheckFields(fields ...Field) error {
	for _, f := range fields {
		if !slices.Contains(f.Allowed, f.Got) {
			e := fault.Configf(f.Key, "unknown value %q", f.Got)
			e.Allowed = slices.DeleteFunc(slices.Clone(f.Allowed), func(s string) bool { return s == "" })
			return e
		}
	}
	return nil
}
