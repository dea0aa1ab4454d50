package endpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/assent-dev/assent/internal/secret"
	"github.com/assent-dev/assent/model"
)

// The kinds of a *model.Error that every driver gives.
const (
	KindAuthentication = "authentication"
	KindPermission     = "permission"
	KindBilling        = "billing"
	// KindNotFound is mostly an unknown model, or a base URL with a wrong path.
	KindNotFound   = "not_found"
	KindBadRequest = "bad_request"
	KindRateLimit  = "rate_limit"
	KindOverloaded = "overloaded"
	KindServer     = "server_error"
	KindTimeout    = "timeout"
	KindNetwork    = "network"
	// KindCut is a stream that ended before the turn did.
	KindCut = "stream_cut"
	// KindBadResponse is an answer in another form than the API's.
	KindBadResponse = "bad_response"
	// KindStale says that the provider does not know its own thinking again, which was kept with the conversation.
	KindStale = "stale_thinking"
	// KindEndless is a turn beyond every bound.
	KindEndless = "endless"
)

// mostWait bounds what a provider may ask to wait before the next attempt: an agent must not sleep for years on a header.
const mostWait = time.Hour

// Failure is what a provider says of itself.
type Failure struct {
	// Status is the HTTP status, or zero for one that came in a stream.
	Status int
	// Words are the type and the code of the error, as the provider calls them.
	Words   []string
	Message string
}

// quota are words of failures that waiting for the next minute does not mend.
var quota = []string{"insufficient_quota", "billing_hard_limit_reached", "billing_error", "billing_not_active",
	"contract_spend_limit_reached", "enforced_spend_limit_reached", "credit_balance_too_low"}

// kinds maps the words of providers.
var kinds = map[string]struct {
	kind  string
	retry bool
}{
	"context_length_exceeded": {model.KindTooLong, false}, "request_too_large": {model.KindTooLong, false},
	"authentication_error": {KindAuthentication, false}, "invalid_api_key": {KindAuthentication, false},
	"permission_error": {KindPermission, false}, "not_found_error": {KindNotFound, false}, "model_not_found": {KindNotFound, false},
	"invalid_request_error": {KindBadRequest, false}, "invalid_prompt": {KindBadRequest, false},
	"rate_limit_error": {KindRateLimit, true}, "rate_limit_exceeded": {KindRateLimit, true},
	"overloaded_error": {KindOverloaded, true}, "server_is_overloaded": {KindOverloaded, true}, "slow_down": {KindOverloaded, true},
	"api_error": {KindServer, true}, "server_error": {KindServer, true}, "internal_server_error": {KindServer, true},
	"timeout_error": {KindTimeout, true},
}

// tooLong are the messages of providers whose words do not say that the input does not fit.
var tooLong = []string{"prompt is too long", "exceed context limit", "maximum context length", "exceeds the context window",
	"exceed_context_size_error", "context window exceeds", "input is too long"}

// Classify makes an error of a failure.
func Classify(f Failure) *model.Error {
	e := &model.Error{Msg: f.Message}
	for _, w := range slices.Backward(f.Words) {
		if k, ok := kinds[w]; ok {
			e.Kind, e.Retry = k.kind, k.retry
		}
	}
	if kind, retry := ofStatus(f.Status); kind != "" && (e.Kind == "" || e.Kind == KindServer || kind != KindBadRequest) {
		// A status is more certain than a word; but 400 is said of everything, and an exact word beats it. That of an error of
		// the server is not exact: there are servers that call everything so.
		e.Kind, e.Retry = kind, retry
	}
	if e.Kind == "" {
		e.Kind, e.Retry = KindServer, true
	}
	message := strings.ToLower(f.Message)
	switch {
	case slices.ContainsFunc(f.Words, func(w string) bool { return slices.Contains(quota, w) }):
		e.Kind, e.Retry = KindBilling, false
	case slices.Contains(f.Words, "invalid_encrypted_content"), e.Kind == KindBadRequest && isStale(message):
		e.Kind, e.Retry = KindStale, false
	case e.Kind == KindBadRequest && slices.ContainsFunc(tooLong, func(s string) bool { return strings.Contains(message, s) }):
		e.Kind = model.KindTooLong
	}
	return e
}

// isStale reads the message of providers that have no word for it.
func isStale(message string) bool {
	return strings.Contains(message, "signature") && strings.Contains(message, "thinking") ||
		strings.Contains(message, "encrypted content") && strings.Contains(message, "verified")
}

// Lighter is the request to ask once more, after an error, without what the provider does not take; false is none. That is its own
// thinking of weeks ago, or images.
func Lighter(r model.Request, err error) (lighter model.Request, ok bool) {
	var m *model.Error
	switch {
	case !errors.As(err, &m):
		return r, false
	case m.Kind == KindStale:
		return model.Forgetting(r), true
	case m.Kind == KindBadRequest && strings.Contains(strings.ToLower(m.Msg), "image"):
		return model.Blind(r)
	}
	return r, false
}

func ofStatus(status int) (kind string, retry bool) {
	switch {
	case status < 300:
		return "", false
	case status < 400:
		return KindBadResponse, false
	case status == http.StatusUnauthorized:
		return KindAuthentication, false
	case status == http.StatusPaymentRequired:
		return KindBilling, false
	case status == http.StatusForbidden:
		return KindPermission, false
	case status == http.StatusNotFound:
		return KindNotFound, false
	case status == http.StatusRequestTimeout:
		return KindTimeout, true
	case status == http.StatusConflict, status == http.StatusTooEarly:
		return KindServer, true
	case status == http.StatusRequestEntityTooLarge:
		return model.KindTooLong, false
	case status == http.StatusTooManyRequests:
		return KindRateLimit, true
	case status < 500, status == http.StatusNotImplemented, status == http.StatusHTTPVersionNotSupported:
		return KindBadRequest, false
	case status == http.StatusServiceUnavailable, status == 529:
		return KindOverloaded, true
	}
	return KindServer, true
}

// failed makes an error of a response that is not a 200.
func failed(resp *http.Response, text []byte, key Secret) *model.Error {
	f := Parse(text)
	f.Status = resp.StatusCode
	if f.Message == "" {
		f.Message = describe(resp, text)
	}
	e := Classify(f)
	switch resp.Header.Get("X-Should-Retry") {
	case "true":
		e.Retry = true
	case "false":
		e.Retry = false
	}
	if e.Retry {
		e.After = retryAfter(resp.Header, time.Now())
	}
	if to := resp.Header.Get("Location"); resp.StatusCode < 400 && to != "" {
		f.Message = "redirects to another address, which is not followed"
		if u, err := url.Parse(to); err == nil && u.Host != "" {
			f.Message = "redirects to " + u.Host + ", which is not followed; set the base URL"
		}
	}
	e.Msg = clean(fmt.Sprintf("status %d: %s", resp.StatusCode, f.Message), key)
	return e
}

// notAStream makes an error of a 200 that is no event stream. Another attempt would get the same from the same place.
func notAStream(resp *http.Response, text []byte, key Secret) *model.Error {
	if f := Parse(text); f.Message != "" && len(f.Words) > 0 {
		e := Classify(f)
		e.Msg = clean(f.Message, key)
		if e.Retry {
			e.After = retryAfter(resp.Header, time.Now())
		}
		return e
	}
	return &model.Error{Kind: KindBadResponse, Msg: clean("no event stream but "+describe(resp, text)+"; is the base URL right?", key)}
}

// describe says what a response is that the API would not give.
func describe(resp *http.Response, text []byte) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "" {
		kind = "an answer without a content type"
	}
	body := strings.TrimSpace(string(text))
	if lower := strings.ToLower(body); kind == "text/html" {
		// A page's title says what a proxy has to say.
		from := strings.Index(lower, "<title>")
		to := strings.Index(lower, "</title>")
		if len(lower) != len(body) || from < 0 || to < from {
			return kind
		}
		body = strings.TrimSpace(body[from+len("<title>") : to])
	}
	if body == "" {
		return kind
	}
	return kind + ": " + body
}

// Parse reads the body of an error in the forms that providers and servers of their APIs use.
func Parse(text []byte) Failure {
	var raw struct {
		Error   json.RawMessage `json:"error"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(text, &raw) != nil {
		return Failure{}
	}
	var inner struct {
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
		Details struct {
			Code string `json:"error_code"`
		} `json:"details"`
	}
	var plain string
	switch {
	case json.Unmarshal(raw.Error, &inner) == nil && (inner.Message != "" || inner.Type != ""):
		if inner.Message == "" {
			inner.Message = inner.Type
		}
		return Failure{Words: words(word(inner.Code), inner.Details.Code, inner.Type), Message: inner.Message}
	case json.Unmarshal(raw.Error, &plain) == nil && plain != "":
		return Failure{Words: words("error"), Message: plain}
	case raw.Message != "":
		return Failure{Words: words(word(raw.Code), raw.Type), Message: raw.Message}
	case json.Unmarshal(raw.Detail, &plain) == nil && plain != "":
		return Failure{Words: words("detail"), Message: plain}
	}
	return Failure{}
}

func word(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // a number is a status, which is known
	return s
}

func words(all ...string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// retryAfter reads how long to wait, in seconds or as a date, which is measured by the provider's own clock if it tells it.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, ok := number(h.Get("Retry-After-Ms")); ok {
		return wait(ms * float64(time.Millisecond))
	}
	text := h.Get("Retry-After")
	if s, ok := number(text); ok {
		return wait(s * float64(time.Second))
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	return wait(float64(at.Sub(now)))
}

func number(text string) (float64, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return f, err == nil && !math.IsNaN(f)
}

func wait(d float64) time.Duration {
	return time.Duration(min(max(d, 0), float64(mostWait)))
}

// mostMessage bounds the text of a provider in an error, in bytes.
const mostMessage = 1000

// clean makes a provider's text fit for a log and for history: one line, bounded, and without the key.
func clean(text string, keys ...Secret) string {
	text = secret.Hide(text, keys...)
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(text) > mostMessage {
		text = strings.ToValidUTF8(text[:mostMessage], "") + "…"
	}
	return text
}

// Clean is for what a driver reads in a stream: one line, bounded, and without any key that was sent.
func (e *Endpoint) Clean(text string) string { return clean(text, e.transport.remembered()...) }
