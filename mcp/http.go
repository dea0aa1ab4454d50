package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/assent-dev/assent/internal/secret"
)

// web is the way to a server over HTTP. It sets the token on a copy of each request, bounds what is read, follows no redirect,
// and makes an answer of everything that is none: the SDK would end a session with all its requests for one bad response.
type web struct {
	next http.RoundTripper
	cfg  *Config
	say  *notices

	mu      sync.Mutex
	version string
	// sent are the last tokens that went out; a response may quote one that has been replaced since.
	sent []secret.Secret
}

const (
	// mostFailure is what is read of a response that is no answer, in bytes.
	mostFailure = 64 << 10
	// mostHeader bounds the header of a response in bytes.
	mostHeader = 256 << 10
	// idleConns are connections that calls leave open for later ones.
	idleConns = 16
	// mostSent bounds the tokens that are remembered.
	mostSent = 4
	// mostResumed bounds how often a stream is opened again at one place.
	mostResumed = 3

	// codeOfServers is the first of the codes that JSON-RPC leaves to servers.
	codeOfServers = -32000

	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	headerEvent   = "Last-Event-Id"
	typeJSON      = "application/json"
	typeStream    = "text/event-stream"
)

func newWeb(cfg *Config, say *notices) *web {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxResponseHeaderBytes, base.MaxIdleConnsPerHost = mostHeader, idleConns
	return &web{next: base, cfg: cfg, say: say}
}

func (w *web) client() *http.Client {
	return &http.Client{Transport: w, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// agreed puts down the version of the protocol, which each request says.
func (w *web) agreed(version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version = version
}

func (w *web) close() {
	if t, ok := w.next.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// RoundTrip sends one request.
func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	out, err := w.request(r, x)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return w.failed(r, x, &failure{msg: err.Error(), refused: true})
	}
	resp, err := w.next.RoundTrip(out)
	switch {
	case x == nil && err == nil:
		return w.unasked(r, resp), nil
	case x == nil:
		return nil, err
	case r.Context().Err() != nil:
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, r.Context().Err()
	case r.Method == http.MethodGet:
		return w.resumed(r, x, resp, err)
	case err != nil && x.maySent():
		return w.failed(r, x, &failure{msg: "the connection broke before it answered: " + w.quoted(err.Error()), gone: true})
	case err != nil:
		return w.failed(r, x, &failure{msg: "it cannot be reached: " + w.quoted(err.Error()), refused: true, gone: true})
	}
	return w.answer(r, x, resp)
}

// request is what is sent in the place of r.
func (w *web) request(r *http.Request, x *exchange) (*http.Request, error) {
	token, err := w.cfg.Token.ReadAs("token")
	if err != nil {
		return nil, err
	}
	ctx := r.Context()
	if x != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: x.reached})
	}
	r = r.Clone(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Header.Get(headerVersion) == "" && w.version != "" {
		r.Header.Set(headerVersion, w.version)
	}
	for name, value := range w.cfg.Headers {
		r.Header.Set(name, value)
	}
	if !w.cfg.Token.None() {
		r.Header.Set("Authorization", "Bearer "+token.Reveal())
		w.sent = append(slices.DeleteFunc(w.sent, func(s secret.Secret) bool { return s == token }), token)
		w.sent = w.sent[max(0, len(w.sent)-mostSent):]
	}
	return r, nil
}

func (w *web) quoted(text string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return quoted(text, w.sent...)
}

// failed answers a request with a failure, in the form that r asks for.
func (w *web) failed(r *http.Request, x *exchange, f *failure) (*http.Response, error) {
	if x == nil {
		return nil, f
	}
	x.fail(f)
	text, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: x.requestID(), Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: f.msg}})
	if err != nil {
		return nil, f
	}
	if r.Method == http.MethodGet {
		return made(r, http.StatusOK, typeStream, fmt.Appendf(nil, "data: %s\n\n", text)), nil
	}
	return made(r, http.StatusOK, typeJSON, text), nil
}

// made is a response that no server has sent.
func made(r *http.Request, status int, kind string, body []byte) *http.Response {
	return &http.Response{Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r}
}

// unasked is the response to a message that wants none. Whatever is wrong with it shows at the next request.
func (w *web) unasked(r *http.Request, resp *http.Response) *http.Response {
	_, _ = io.CopyN(io.Discard, resp.Body, mostFailure)
	_ = resp.Body.Close()
	if resp.StatusCode >= 300 {
		w.cfg.Log.Debug("assent: an MCP server does not take a message", "method", r.Method, "status", resp.StatusCode)
	}
	return made(r, http.StatusAccepted, typeJSON, nil)
}

// resumed is a stream that was opened again after it broke.
func (w *web) resumed(r *http.Request, x *exchange, resp *http.Response, err error) (*http.Response, error) {
	again := x.resume(r.Header.Get(headerEvent)) < mostResumed
	switch {
	case x.failure() != nil:
		if err == nil {
			_ = resp.Body.Close()
		}
		return w.failed(r, x, x.failure())
	case err != nil && again:
		return nil, err
	case err != nil:
		return w.failed(r, x, &failure{msg: "the stream broke and could not be opened again: " + w.quoted(err.Error())})
	case !again || resp.StatusCode != http.StatusOK || kindOf(resp) != typeStream:
		_ = resp.Body.Close()
		return w.failed(r, x, &failure{msg: fmt.Sprintf("the stream broke and could not be opened again: status %d", resp.StatusCode)})
	}
	resp.Body = w.events(resp.Body, x)
	return resp, nil
}

// answer is the response to a request.
func (w *web) answer(r *http.Request, x *exchange, resp *http.Response) (*http.Response, error) {
	kind := kindOf(resp)
	if resp.StatusCode == http.StatusOK && kind == typeStream {
		resp.Body = w.events(resp.Body, x)
		return resp, nil
	}
	most := int64(mostFailure)
	if resp.StatusCode == http.StatusOK && kind == typeJSON {
		most = MaxMessage
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	_ = resp.Body.Close()
	switch {
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	case resp.StatusCode != http.StatusOK:
		return w.refused(r, x, resp, text)
	case kind != typeJSON:
		return w.failed(r, x, &failure{msg: "it does not answer in MCP but with " + w.describe(kind, text) + "; is the url right?"})
	case int64(len(text)) > most:
		return w.failed(r, x, tooLarge())
	case err != nil:
		return w.failed(r, x, &failure{msg: "the connection broke in the answer: " + w.quoted(err.Error())})
	}
	if !answers(text, x.requestID()) {
		return w.failed(r, x, &failure{msg: "it does not answer the request but says " + w.describe(kind, text)})
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return resp, nil
}

// answers reports whether a text is the answer to a request.
func answers(text []byte, id jsonrpc.ID) bool {
	msg, err := decode(text)
	resp, ok := msg.(*jsonrpc.Response)
	return err == nil && ok && resp.ID == id
}

// errorIn is the error of the protocol in a text, or nil. Its id does not matter: it is often null.
func errorIn(text []byte) *jsonrpc.Error {
	var said struct {
		Error *struct {
			Code    int64           `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &said) != nil || said.Error == nil || said.Error.Code == 0 {
		return nil
	}
	return &jsonrpc.Error{Code: said.Error.Code, Message: said.Error.Message, Data: said.Error.Data}
}

// refused is a response with another status than 200.
func (w *web) refused(r *http.Request, x *exchange, resp *http.Response, text []byte) (*http.Response, error) {
	status := resp.StatusCode
	// A server says 408 of a request that did not arrive whole, and as often of one that took it too long.
	f := &failure{msg: fmt.Sprintf("status %d %s", status, http.StatusText(status)), refused: status >= 300 && status < 500 && status != http.StatusRequestTimeout}
	inner, wants := errorIn(text), resp.Header.Get("WWW-Authenticate")
	// Many servers say 400 for a session that they do not know, with the code that stands for any error; and any error may be
	// in answer to a call that has had its effect.
	unknown := status == http.StatusNotFound || status == http.StatusBadRequest && (inner == nil || inner.Code == codeOfServers)
	switch {
	case unknown && r.Header.Get(headerSession) != "":
		f.doubt = true
	case status == http.StatusAccepted || status == http.StatusNoContent:
		f.msg += " and no answer"
	case status >= 300 && status < 400:
		f.msg += ": it redirects, which is not followed; the url has to be the server's own"
	case status == http.StatusUnauthorized && w.cfg.Token.None() && strings.Contains(wants, "resource_metadata"):
		f.msg += ": it wants a token by OAuth, which is not done here; tokenEnv or tokenFile names one that you have got"
	case status == http.StatusUnauthorized && w.cfg.Token.None():
		f.msg += ": it wants a token; tokenEnv or tokenFile names one"
	case status == http.StatusUnauthorized:
		f.msg += ": it does not take the token"
	}
	if wants != "" {
		f.msg += ": it says " + w.quoted(wants)
	}
	switch {
	case inner != nil:
		f.msg += ": " + w.quoted(inner.Message)
	case len(bytes.TrimSpace(text)) > 0:
		f.msg += ": " + w.describe(kindOf(resp), text)
	}
	if f.refused && !f.doubt && inner != nil && (status == http.StatusBadRequest || status == http.StatusNotFound) {
		// The server has answered, whatever its status: the words and the code of the protocol are for the caller.
		said, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: x.requestID(), Error: inner})
		if err == nil {
			return made(r, http.StatusOK, typeJSON, said), nil
		}
	}
	return w.failed(r, x, f)
}

func kindOf(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// describe says what a response is that is no answer.
func (w *web) describe(kind string, text []byte) string {
	if kind == "" {
		kind = "something without a content type"
	}
	body := string(text[:min(len(text), mostFailure)])
	if lower := strings.ToLower(body); kind == "text/html" && len(lower) == len(body) {
		// A page's title says what a proxy has to say.
		if from, to := strings.Index(lower, "<title>"), strings.Index(lower, "</title>"); from >= 0 && to > from {
			body = body[from+len("<title>") : to]
		}
	}
	if body = w.quoted(body); body == "" {
		return kind
	}
	return fmt.Sprintf("%s: %q", kind, body)
}
