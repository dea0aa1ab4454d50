package verify

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
)

// MaxHistory bounds the JSON of a history in bytes, unpacked. The server ends a run at 50 MiB, which base64 makes 67.
const MaxHistory = 256 << 20

// ReadError says where a file stops being a history.
type ReadError struct {
	// Event counts from 1; 0 is the file as a whole.
	Event int
	Cause error
}

func (e *ReadError) Error() string {
	if e.Event == 0 {
		return "not a workflow history: " + e.Cause.Error()
	}
	return fmt.Sprintf("not a workflow history: event %d: %v", e.Event, e.Cause)
}

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Cause }

var (
	errTooLarge = fmt.Errorf("it has more than %d MiB", MaxHistory>>20)
	errNoEvents = errors.New(`there is no list "events"`)
)

// Read reads a history in JSON, as `temporal workflow show -o json` writes it, as the Temporal UI downloads it, decoded or
// not, or as a bare list of events; gzip is taken off. Errors are *ReadError.
func Read(r io.Reader) ([]*historypb.HistoryEvent, error) {
	in := bufio.NewReader(r)
	if magic, err := in.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, &ReadError{Cause: whole(err)}
		}
		in = bufio.NewReader(unpacked)
	}
	text, err := io.ReadAll(io.LimitReader(in, MaxHistory+1))
	switch {
	case len(text) > MaxHistory:
		return nil, &ReadError{Cause: errTooLarge}
	case err != nil:
		return nil, &ReadError{Cause: whole(err)}
	}
	// From memory: fed in small pieces, the decoder looks at a long run of blanks again for each of them.
	return readEvents(json.NewDecoder(bytes.NewReader(text)))
}

func readEvents(dec *json.Decoder) ([]*historypb.HistoryEvent, error) {
	tok, err := dec.Token()
	switch {
	case err != nil:
		return nil, &ReadError{Cause: whole(err)}
	case tok == json.Delim('['):
		events, err := readList(dec)
		if err == nil {
			err = ends(dec)
		}
		return events, err
	case tok != json.Delim('{'):
		return nil, &ReadError{Cause: errNoEvents}
	}
	var events []*historypb.HistoryEvent
	found := false
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, &ReadError{Cause: whole(err)}
		}
		if name != "events" || found {
			var other json.RawMessage
			if err := dec.Decode(&other); err != nil {
				return nil, &ReadError{Cause: whole(err)}
			}
			if name == "events" {
				return nil, &ReadError{Cause: errors.New(`the member "events" appears twice`)}
			}
			continue
		}
		found = true
		if tok, err := dec.Token(); err != nil || tok != json.Delim('[') {
			return nil, &ReadError{Cause: errNoEvents}
		}
		if events, err = readList(dec); err != nil {
			return nil, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, &ReadError{Cause: whole(err)}
	}
	if !found {
		return nil, &ReadError{Cause: errNoEvents}
	}
	return events, ends(dec)
}

// readList reads events up to the end of their list. encoding/json takes each one first and bounds its depth, which the
// decoder of the API does not.
func readList(dec *json.Decoder) ([]*historypb.HistoryEvent, error) {
	opts := temporalproto.CustomJSONUnmarshalOptions{
		// Written by another version of the server, or with payloads as plain JSON.
		DiscardUnknown: true, Metadata: map[string]any{commonpb.EnablePayloadShorthandMetadataKey: true},
	}
	var events []*historypb.HistoryEvent
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, &ReadError{Event: len(events) + 1, Cause: whole(err)}
		}
		if len(raw) == 0 || raw[0] != '{' {
			return nil, &ReadError{Event: len(events) + 1, Cause: errors.New("it is no object")}
		}
		e := &historypb.HistoryEvent{}
		if err := opts.Unmarshal(raw, e); err != nil {
			return nil, &ReadError{Event: len(events) + 1, Cause: err}
		}
		events = append(events, e)
	}
	if _, err := dec.Token(); err != nil {
		return nil, &ReadError{Cause: whole(err)}
	}
	return events, nil
}

// ends makes sure that nothing follows: two histories in one file would be half read.
func ends(dec *json.Decoder) error {
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return &ReadError{Cause: errors.New("something follows the history")}
	}
	return nil
}

// whole says that a file was cut, which is no error of its syntax.
func whole(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends in the middle")
	}
	return err
}
