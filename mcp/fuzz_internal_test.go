package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

func quiet(t testing.TB, c Config) *Server {
	t.Helper()
	c.Name, c.Command = "s", []string{"x"}
	s, err := New(c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// FuzzDefine: whatever a server lists, what is offered fits and has at least the risk that was configured.
func FuzzDefine(f *testing.F) {
	for _, seed := range []string{
		`[{"name":"a","description":"d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"destructiveHint":false}}]`,
		`[{"name":"a","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}},{"name":"b"},{"name":"a"},null,5]`,
		`[{"name":"b.c","inputSchema":{"type":"array"}},{"name":"` + strings.Repeat("x", 70) + `","inputSchema":{"$ref":"#"}}]`,
	} {
		f.Add([]byte(seed))
	}
	s := quiet(f, Config{Risk: map[string]tool.Risk{"a": tool.Execute}})
	s.cfg.Risk["b"] = tool.Write
	f.Fuzz(func(t *testing.T, data []byte) {
		var list []json.RawMessage
		if json.Unmarshal(data, &list) != nil {
			return
		}
		defs, refused, err := s.define(context.Background(), list)
		if err != nil {
			require.True(t, fault.IsConfig(err))
			return
		}
		require.LessOrEqual(t, len(defs)+len(refused), len(list))
		for _, d := range defs {
			i := d.Info()
			require.Regexp(t, `\As_[a-zA-Z0-9_-]{1,62}\z`, i.Name)
			require.LessOrEqual(t, len(i.Description), maxDescription+len("…"))
			want := s.cfg.Risk[strings.TrimPrefix(i.Name, "s_")]
			require.Contains(t, []tool.Risk{want, tool.Destructive}, i.Risk)
		}
	})
}

// FuzzResult: whatever a server answers, there is a value within bounds or an error.
func FuzzResult(f *testing.F) {
	for _, seed := range []string{
		`{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"audio"},{"type":"resource","resource":{"uri":"u","blob":"AA=="}}]}`,
		`{"structuredContent":{"a":[1e400]},"content":[{"type":"resource_link","uri":"u"},{"type":"odd"},5]}`,
		`{"isError":true,"content":[]}`, `null`, `[]`, `{"inputRequests":{"a":{"method":"x"}}}`, `{"content":[{"type":"resource","resource":{"uri":"u","text":"t"}}]}`,
	} {
		f.Add([]byte(seed))
	}
	s := quiet(f, Config{MaxResult: minResult})
	f.Fuzz(func(t *testing.T, data []byte) {
		value, err := s.result(&tool.Context{}, data, "")
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		switch v := value.(type) {
		case string:
			require.LessOrEqual(t, len(v), minResult+100)
		case json.RawMessage:
			require.True(t, json.Valid(v))
			require.LessOrEqual(t, len(v), minResult)
		default:
			require.Failf(t, "a value of another kind", "%T", v)
		}
	})
}

// FuzzLines: whatever a program prints, reading it ends.
func FuzzLines(f *testing.F) {
	f.Add([]byte("hello\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n[{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]\n\n[]\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := newLines(nopCloser{io.Discard}, io.NopCloser(bytes.NewReader(data)), &notices{log: slog.New(slog.DiscardHandler)}, func(text string) string { return quoted(text) })
		defer func() { _ = l.Close() }()
		for {
			msg, err := l.Read(context.Background())
			if err != nil {
				return
			}
			require.NotNil(t, msg)
		}
	})
}

// FuzzEvents: whatever a stream has, what is passed on can be read, and reading it ends.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(": hi\nid: 1\nretry: 5\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\r\n\r\nevent: x\ndata: y\n\ndata: bad\n\ndata: {"))
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newWeb(&Config{Log: slog.New(slog.DiscardHandler)}, &notices{log: slog.New(slog.DiscardHandler)})
		e := w.events(io.NopCloser(bytes.NewReader(data)), &exchange{})
		out, _ := io.ReadAll(e)
		for _, event := range strings.Split(string(out), "\n\n") {
			var text []string
			named := false
			for _, line := range strings.Split(event, "\n") {
				if d, ok := strings.CutPrefix(line, "data: "); ok {
					text = append(text, d)
				}
				if name, ok := strings.CutPrefix(line, "event: "); ok {
					named = name != "" && name != "message"
				}
			}
			if all := strings.TrimSpace(strings.Join(text, "\n")); all != "" && !named {
				_, err := jsonrpc.DecodeMessage([]byte(all))
				require.NoError(t, err)
			}
		}
	})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
