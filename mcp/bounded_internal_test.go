package mcp

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
)

// What a server sends is counted before it is kept: an array of numbers costs a few times its bytes, wherever it stands.
// It is not parallel, because it counts what the process allocates.
func TestALongArrayCostsLittle(t *testing.T) {
	numbers := "[" + strings.Repeat("1,", 1_000_000) + "1]"
	members := "{" + strings.Repeat(`"a":1,`, 320_000) + `"a":1}`
	s := quiet(t, Config{})
	read := func(raw string) func(*testing.T) {
		return func(t *testing.T) { _, _ = s.result(&tool.Context{}, json.RawMessage(raw), "") }
	}
	list := func(raw string) func(*testing.T) {
		return func(t *testing.T) {
			p, err := pageOf(json.RawMessage(raw))
			require.NoError(t, err)
			assert.True(t, p.Tools.more)
		}
	}
	line := func(raw string) func(*testing.T) {
		return func(t *testing.T) {
			_, ok := (&lines{}).parse([]byte(raw), nil)
			assert.False(t, ok)
		}
	}
	answer := func(r *jsonrpc.Response) func(*testing.T) {
		return func(t *testing.T) {
			w := &wire{hide: func(text string) string { return quoted(text) }, version: func(string) {}, open: map[jsonrpc.ID]*exchange{{}: {}}}
			got := w.answer(r)
			var said *jsonrpc.Error
			require.ErrorAs(t, got.Error, &said)
			assert.Empty(t, said.Data)
		}
	}
	for name, run := range map[string]func(*testing.T){
		"content":         read(`{"content":` + numbers + `}`),
		"content, object": read(`{"content":` + members + `}`),
		"questions":       read(`{"inputRequests":` + members + `}`),
		"structured":      read(`{"structuredContent":` + numbers + `}`),
		"text":            read(`{"content":[{"type":"text","text":` + numbers + `}]}`),
		"tools":           list(`{"tools":` + numbers + `}`),
		"batch":           line(numbers),
		"id":              line(`{"jsonrpc":"2.0","result":{},"id":` + numbers + `}`),
		"ids":             line(`{"jsonrpc":"2.0","id":` + numbers + `,"ID":1,"result":{}}`),
		"id in a batch":   line(`[{"jsonrpc":"2.0","result":{},"id":` + numbers + `}]`),
		"hint": func(t *testing.T) {
			_, _, err := s.define(context.Background(), []json.RawMessage{json.RawMessage(`{"name":"a","annotations":{"destructiveHint":` + numbers + `}}`)})
			require.NoError(t, err)
		},
		"schema": func(t *testing.T) {
			_, refused, err := s.define(context.Background(), []json.RawMessage{json.RawMessage(`{"name":"a","inputSchema":{"enum":` + numbers + `}}`)})
			require.NoError(t, err)
			assert.Len(t, refused, 1)
		},
		"event": func(t *testing.T) {
			w := newWeb(&Config{Log: slog.New(slog.DiscardHandler)}, &notices{log: slog.New(slog.DiscardHandler)})
			assert.False(t, w.events(io.NopCloser(strings.NewReader("")), &exchange{}).fits("", []byte(`{"jsonrpc":"2.0","id":`+numbers+`}`)))
		},
		"hello": answer(&jsonrpc.Response{Result: json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"a":` + numbers + `}}}`)}),
		"error": answer(&jsonrpc.Response{Error: &jsonrpc.Error{Code: -32022, Message: "no", Data: json.RawMessage(`{"supported":` + numbers + `}`)}}),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			run(t)
			runtime.ReadMemStats(&after)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10*len(numbers)))
		})
	}
}

func TestElements(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		list []string
		more bool
	}{
		`null`:                     {},
		`[]`:                       {},
		`{}`:                       {},
		` [ 1 , "a" ] `:            {list: []string{"1", `"a"`}},
		`[[1,2],{"a":3},null]`:     {list: []string{"[1,2]", `{"a":3}`, "null"}},
		`[1,2,3,4]`:                {list: []string{"1", "2", "3"}, more: true},
		`{"a":{"b":1},"c":[2]}`:    {list: []string{`{"b":1}`, "[2]"}},
		`{"a":1,"b":2,"a":3,"":4}`: {list: []string{"1", "2", "3"}, more: true},
	} {
		e := elements{open: json.Delim(strings.TrimSpace(text)[0]), most: 3}
		require.NoError(t, json.Unmarshal([]byte(text), &e), text)
		var got []string
		for _, one := range e.list {
			got = append(got, string(one))
		}
		assert.Equal(t, want.list, got, text)
		assert.Equal(t, want.more, e.more, text)
	}
	assert.Error(t, json.Unmarshal([]byte(`{"a":1}`), &elements{open: '[', most: 3}))
	assert.Error(t, json.Unmarshal([]byte(`[1]`), &elements{open: '{', most: 3}))
	for _, text := range []string{`5`, `"a"`, `true`, `[1`, `[1,]`, `{"a"}`, `{"a":}`, `[1]2`, ``} {
		for _, open := range []json.Delim{'[', '{'} {
			assert.Error(t, json.Unmarshal([]byte(text), &elements{open: open, most: 3}), text)
		}
	}
}
