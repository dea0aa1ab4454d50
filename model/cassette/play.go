package cassette

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
)

// KindUnrecorded is the kind of the error for a request that the cassette does not hold. Trying again does not help.
const KindUnrecorded = "unrecorded"

// Player is a model that says what was recorded. It is safe for concurrent use.
type Player struct {
	path string
	tape tape
	all  []exchange

	mu sync.Mutex
	// by has the exchanges of a request that are left; the last one is said again and again, because an activity that is
	// retried asks again.
	by map[string][]int
	// next is the first exchange that was not played.
	next int
}

var (
	_ model.Streamer = (*Player)(nil)
	_ model.Priced   = (*Player)(nil)
)

// Play reads the cassette at path. A file that is none is a *fault.ConfigError with its line.
func Play(path string, o Options) (*Player, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &fault.ConfigError{File: path, Msg: "cannot read the cassette", Cause: err}
	}
	p := &Player{path: path, tape: o.tape(), by: map[string][]int{}}
	lines := bufio.NewReader(bytes.NewReader(data))
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if bad := p.line(n, line); bad != nil {
				return nil, &fault.ConfigError{File: path, Line: n, Column: 1, Msg: "is no line of a cassette", Cause: bad}
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
	}
	if len(p.all) == 0 {
		return nil, &fault.ConfigError{File: path, Msg: "the cassette is empty"}
	}
	return p, nil
}

func (p *Player) line(n int, line []byte) error {
	if n == 1 {
		var h head
		if err := strictly(line, &h); err != nil {
			return err
		}
		if h.Cassette != version {
			return fmt.Errorf("version %d, not %d", h.Cassette, version)
		}
		return nil
	}
	var e exchange
	if err := strictly(line, &e); err != nil {
		return err
	}
	if (e.Error == nil) == (e.Response == nil) || e.Request == nil {
		return errors.New("an exchange has a request, and a response or an error")
	}
	if _, err := e.answer(); err != nil && e.Error == nil {
		return err
	}
	// It may have been edited by hand, or recorded with another Normalize.
	asked, err := p.tape.form(e.Request)
	if err != nil {
		return err
	}
	e.Request = asked
	p.by[string(asked)] = append(p.by[string(asked)], len(p.all))
	p.all = append(p.all, e)
	return nil
}

// strictly reads one value, and nothing else: what was edited by hand and does not count would be missed.
func strictly(line []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the value")
	}
	return nil
}

// Price says that what is played costs nothing.
func (p *Player) Price(string) model.Price { return model.Price{Free: true} }

// Generate says what was recorded for the request, or fails with KindUnrecorded and where the request differs.
func (p *Player) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	return p.Stream(ctx, r, nil)
}

// Stream is Generate, and tells progress the text and each call as one piece.
func (p *Player) Stream(ctx context.Context, r model.Request, progress func(model.Delta)) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	asked, err := p.tape.asked(r)
	if err != nil {
		return model.Response{}, &model.Error{Kind: KindUnrecorded, Msg: "the request has no JSON form", Cause: err}
	}
	e, ok := p.take(string(asked))
	if !ok {
		return model.Response{}, &model.Error{Kind: KindUnrecorded, Msg: p.unrecorded(asked)}
	}
	resp, err := e.answer()
	if err == nil && progress != nil {
		if resp.Text != "" {
			progress(model.Delta{Text: resp.Text})
		}
		for i, c := range resp.Calls {
			progress(model.Delta{Call: &model.CallDelta{Index: i, Name: c.Name, Input: string(c.Input) + c.Raw}})
		}
	}
	return resp, err
}

func (p *Player) take(asked string) (exchange, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.by[asked]
	if len(left) == 0 {
		return exchange{}, false
	}
	e := p.all[left[0]]
	p.next = max(p.next, left[0]+1)
	if len(left) > 1 {
		p.by[asked] = left[1:]
	}
	return e, true
}

// unrecorded says how a request differs from the one that comes next on the cassette.
func (p *Player) unrecorded(asked json.RawMessage) string {
	p.mu.Lock()
	next := p.next
	p.mu.Unlock()
	if next == len(p.all) {
		return fmt.Sprintf("cassette %q has %d requests, all of them played, and not this one; record it anew", p.path, len(p.all))
	}
	return fmt.Sprintf("cassette %q does not have this request; it differs from the one on line %d in %s", p.path, next+2, differs(p.all[next].Request, asked))
}
