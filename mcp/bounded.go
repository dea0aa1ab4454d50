package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// elements are the first elements of an array of a server, or the first values of an object. What decodes all of them first
// and counts then takes sixty times the message for an array of numbers.
type elements struct {
	// open is how it begins, [ or {, and most how many are kept. Both are set before decoding.
	open json.Delim
	most int
	list []json.RawMessage
	// more says that there are others.
	more bool
}

// UnmarshalJSON takes null for one without elements.
func (e *elements) UnmarshalJSON(data []byte) error {
	e.list, e.more = nil, false
	from := json.NewDecoder(bytes.NewReader(data))
	open, err := from.Token()
	if open == nil || err != nil {
		return err
	}
	if open != e.open {
		return fmt.Errorf("it has something else where a %s has to begin", e.open)
	}
	for from.More() {
		if e.more = len(e.list) == e.most; e.more {
			return nil
		}
		if e.open == '{' {
			if _, err := from.Token(); err != nil {
				return err
			}
		}
		var one json.RawMessage
		if err := from.Decode(&one); err != nil {
			return err
		}
		e.list = append(e.list, one)
	}
	return nil
}

// errNull is for an answer that says nothing at all: what decodes it finds nothing wrong with it.
var errNull = errors.New("it is null, where an object has to stand")

func isNull(data []byte) bool { return string(bytes.TrimSpace(data)) == "null" }

const (
	// mostPlain bounds what is decoded without counting: arrays of it take memory, but not much.
	mostPlain = 256 << 10
	// mostData bounds what an error of the protocol says beside its words, in bytes.
	mostData = 64 << 10
)

// scalar refuses an array and an object.
type scalar struct{}

var errNoID = errors.New("the id is no string or number")

// UnmarshalJSON looks at the first byte.
func (scalar) UnmarshalJSON(data []byte) error {
	if data[0] == '[' || data[0] == '{' {
		return errNoID
	}
	return nil
}

// decode reads one message. The SDK makes Go values of whatever stands in the place of an id.
func decode(data []byte) (jsonrpc.Message, error) {
	if len(data) > mostPlain {
		var named struct {
			ID scalar `json:"id"`
		}
		if err := json.NewDecoder(bytes.NewReader(data)).Decode(&named); err != nil {
			return nil, err
		}
	}
	return jsonrpc.DecodeMessage(data)
}
