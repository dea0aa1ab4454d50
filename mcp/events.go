package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// events are the body of a stream. Only whole events that the SDK can read are passed on: it would end a session with all its
// requests for one that it cannot.
type events struct {
	web  *web
	body io.Closer
	from *bufio.Reader
	x    *exchange

	ready []byte
	err   error
}

func (w *web) events(body io.ReadCloser, x *exchange) *events {
	return &events{web: w, body: body, from: bufio.NewReaderSize(body, 32<<10), x: x}
}

// Read passes on what was read of the last event.
func (e *events) Read(p []byte) (int, error) {
	for len(e.ready) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.ready, e.err = e.next()
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// Close ends the stream.
func (e *events) Close() error { return e.body.Close() }

// next reads one event. Half an event at the end of a stream is none.
func (e *events) next() ([]byte, error) {
	var event, data []byte
	name := ""
	for {
		line, err := e.line(MaxMessage - len(event))
		switch {
		case errors.Is(err, io.EOF) && len(event)+len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case len(line) == 0 && e.fits(name, data):
			return append(event, '\n'), nil
		case len(line) == 0:
			event, data, name = nil, nil, ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			data = append(append(data, value...), '\n')
		case "event":
			name = string(value)
		case "id", "retry":
		default:
			continue // a comment, or what nobody knows
		}
		event = append(append(append(append(event, field...), ": "...), value...), '\n')
	}
}

// line reads a line of at most that many bytes, without its end.
func (e *events) line(most int) ([]byte, error) {
	var line []byte
	for {
		part, err := e.from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > most:
			e.x.fail(tooLarge())
			return nil, tooLarge()
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// fits reports whether the SDK can read an event. One that it cannot is passed over, as a line of a program is.
func (e *events) fits(name string, data []byte) bool {
	data = bytes.TrimSpace(data)
	if name != "" && name != "message" || len(data) == 0 {
		return true
	}
	_, err := decode(data)
	if err != nil {
		text := e.web.quoted(string(data[:min(len(data), mostHidden)]))
		e.x.noise(text)
		e.web.say.once("streams", "assent: an MCP server sends what is no message", "sent", text)
	}
	return err == nil
}
