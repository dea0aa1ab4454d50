package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/assent-dev/assent/model"
)

const (
	// mostResponse bounds one turn in bytes, so that a model that never stops does not fill the memory before its time is up.
	mostResponse = 64 << 20
	// mostFailure is what is read of a response that is no turn.
	mostFailure = 64 << 10
)

// transport sets the key, bounds the response and makes errors of what is no event stream.
type transport struct {
	next http.RoundTripper
	cfg  Config

	mu sync.Mutex
	// sent are the last keys that went out, the latest one last: a response may quote one that has been replaced since.
	sent []Secret
}

// mostSent bounds the keys that are remembered; requests with older ones have ended long ago.
const mostSent = 8

func (t *transport) remember(key Secret) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = append(slices.DeleteFunc(t.sent, func(s Secret) bool { return s == key }), key)
	t.sent = t.sent[max(0, len(t.sent)-mostSent):]
}

func (t *transport) remembered() []Secret {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.sent)
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	key, err := t.cfg.Key.Read()
	if err != nil {
		// It was there at start; whoever changes it may be in the middle of that.
		return nil, closing(r, &model.Error{Kind: KindAuthentication, Msg: err.Error(), Retry: true})
	}
	t.remember(key)
	ctx, cancel := context.WithCancelCause(r.Context())
	r = r.Clone(ctx)
	// What an SDK made of the environment is not what was configured.
	r.Header.Del("Authorization")
	r.Header.Del("X-Api-Key")
	for name, value := range t.cfg.Headers {
		r.Header.Set(name, value)
	}
	switch {
	case t.cfg.Key.None():
	case t.cfg.Auth == XAPIKey:
		r.Header.Set("X-Api-Key", key.Reveal())
	default:
		r.Header.Set("Authorization", "Bearer "+key.Reveal())
	}
	watch := time.AfterFunc(t.cfg.Silence, func() { cancel(t.silent()) })
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		watch.Stop()
		err = broken(ctx, err, key)
		cancel(nil)
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, t: t, key: key, ctx: ctx, watch: watch, cancel: cancel, left: mostResponse}
	if err := t.check(resp, key); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	if h, ok := ctx.Value(heardKey{}).(*heard); ok {
		h.begun.Store(true)
	}
	return resp, nil
}

// closing closes the body of a request that is not sent, as a RoundTripper must.
func closing(r *http.Request, err error) error {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return err
}

func (t *transport) silent() *model.Error {
	return &model.Error{Kind: KindTimeout, Msg: fmt.Sprintf("not a byte for %s", t.cfg.Silence), Retry: true}
}

// check returns nil for an event stream.
func (t *transport) check(resp *http.Response, key Secret) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostFailure))
	var m *model.Error
	if err != nil && !(errors.As(err, &m) && m.Kind == KindNetwork) {
		return err // silence or the end of the context; a body that is merely cut still has a status
	}
	if resp.StatusCode == http.StatusOK {
		return notAStream(resp, text, key)
	}
	return failed(resp, text, key)
}

// broken tells why there is no response, or no more of it.
func broken(ctx context.Context, err error, key Secret) error {
	var m *model.Error
	if errors.As(context.Cause(ctx), &m) {
		return m
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &model.Error{Kind: KindCut, Msg: "the stream was cut", Retry: true}
	}
	// The text of a network error has addresses, and what came instead of HTTP.
	return &model.Error{Kind: KindNetwork, Msg: clean(err.Error(), key), Retry: true}
}

// body is a response's, bounded in size and silence.
type body struct {
	io.ReadCloser
	t      *transport
	key    Secret
	ctx    context.Context
	watch  *time.Timer
	cancel context.CancelCauseFunc
	left   int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &model.Error{Kind: KindEndless, Msg: fmt.Sprintf("the response has more than %d bytes", int64(mostResponse))}
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if n > 0 {
		b.watch.Reset(b.t.cfg.Silence)
		if h, ok := b.ctx.Value(heardKey{}).(*heard); ok {
			h.bytes.Add(int64(n))
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = broken(b.ctx, err, b.key)
	}
	return n, err
}

func (b *body) Close() error {
	b.watch.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
