package cassette

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/assent-dev/assent/model"
)

// Recorder is a model that writes down what another one was asked and said. It is safe for concurrent use.
type Recorder struct {
	model model.Model
	tape  tape
	path  string

	mu   sync.Mutex
	file *os.File
	err  error
}

var (
	_ model.Streamer = (*Recorder)(nil)
	_ model.Named    = (*Recorder)(nil)
	_ model.Priced   = (*Recorder)(nil)
)

// Record begins a cassette of what m is asked. It takes the place of the one at path when Close is called, so a recording that
// broke off replaces nothing.
func Record(path string, m model.Model, o Options) (*Recorder, error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, fmt.Errorf("record %q: %w", path, err)
	}
	r := &Recorder{model: m, tape: o.tape(), path: path, file: f}
	r.write(head{version})
	return r, nil
}

func (r *Recorder) write(line any) {
	raw, err := json.Marshal(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	if err == nil && r.file == nil {
		err = errors.New("it is closed")
	}
	if err == nil {
		_, err = r.file.Write(append(raw, '\n'))
	}
	r.err = err
}

// Generate asks the model and writes the exchange down.
func (r *Recorder) Generate(ctx context.Context, req model.Request) (model.Response, error) {
	return r.Stream(ctx, req, nil)
}

// Stream is Generate, and tells progress what the model tells.
func (r *Recorder) Stream(ctx context.Context, req model.Request, progress func(model.Delta)) (model.Response, error) {
	resp, err := model.Stream(ctx, r.model, req, progress)
	if err != nil && ctx.Err() != nil {
		// The caller has given up: that is nothing that the model said.
		return resp, err
	}
	asked, failed := r.tape.asked(req)
	var e exchange
	if failed == nil {
		e, failed = r.tape.said(asked, resp, err)
	}
	if failed != nil {
		r.mu.Lock()
		r.err = errors.Join(r.err, failed)
		r.mu.Unlock()
		return resp, err
	}
	r.write(e)
	return resp, err
}

// Knows asks the model, if it knows names.
func (r *Recorder) Knows(name string) error {
	if n, ok := r.model.(model.Named); ok {
		return n.Knows(name)
	}
	return nil
}

// Price asks the model, if it knows prices.
func (r *Recorder) Price(name string) model.Price {
	if p, ok := r.model.(model.Priced); ok {
		return p.Price(name)
	}
	return model.Price{}
}

// Close puts the cassette in its place, or returns why something was not written. A second call does nothing.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	err := errors.Join(r.err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), r.path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("record %q: %w", r.path, err)
	}
	return nil
}

func asError(err error) (m *model.Error, ok bool) { return m, errors.As(err, &m) }
