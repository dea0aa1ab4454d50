package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/mcp"
	"github.com/assent-dev/assent/tool"
)

// The test binary is its own server over stdio: a variable says which.
const serverEnv = "MCP_TEST_SERVER"

// patience ends what hangs. Nothing that is fine comes near it, however busy the machine is.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	switch mode := os.Getenv(serverEnv); mode {
	case "":
		os.Exit(m.Run())
	case "good":
		if err := goodServer().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	default:
		serveRaw(os.Stdin, os.Stdout, rawServers[mode])
	}
}

// request is what a server by hand gets.
type request struct {
	ID     *int64          `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// rawServer writes whatever it likes after each request; write adds the newline.
type rawServer func(r request, write func(string))

// serveRaw is the loop of a server by hand. A request nil comes first, before anything was read.
func serveRaw(in *os.File, out *os.File, s rawServer) {
	write := func(text string) { _, _ = out.WriteString(text + "\n") }
	s(request{}, write)
	lines := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		var r request
		_ = json.Unmarshal([]byte(line), &r)
		s(r, write)
	}
}

// reply answers r with a result.
func reply(r request, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, *r.ID, result)
}

const initialized = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`

const echoTool = `{"name":"echo","description":"Echo.","inputSchema":{"type":"object"}}`

// usual answers what nothing is wrong with; false is what it leaves to the test.
func usual(r request, write func(string)) bool {
	switch r.Method {
	case "initialize":
		write(reply(r, initialized))
	case "tools/list":
		write(reply(r, `{"tools":[`+echoTool+`]}`))
	case "tools/call":
		return false
	}
	return true
}

// config starts the test binary as a server.
func config(t *testing.T, mode string) mcp.Config {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return mcp.Config{Name: "s", Command: []string{self, "-test.run=^$"}, Env: map[string]string{serverEnv: mode, "GORACE": "atexit_sleep_ms=0"},
		StartTimeout: patience, CallTimeout: patience}
}

func start(t *testing.T, c mcp.Config) *mcp.Server {
	t.Helper()
	s := open(t, c)
	require.NoError(t, s.Start(context.Background()))
	return s
}

func open(t *testing.T, c mcp.Config) *mcp.Server {
	t.Helper()
	s, err := mcp.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// invoke calls a tool by its final name.
func invoke(ctx context.Context, t *testing.T, s *mcp.Server, name, input string) tool.Result {
	t.Helper()
	return def(t, s, name).Invoke(ctx, &tool.Context{IdempotencyKey: "key-1"}, json.RawMessage(input))
}

func def(t *testing.T, s *mcp.Server, name string) *tool.Def {
	t.Helper()
	defs, err := s.Tools(context.Background())
	require.NoError(t, err)
	var names []string
	for _, d := range defs {
		names = append(names, d.Name())
		if d.Name() == name {
			return d
		}
	}
	require.Failf(t, "no such tool", "%s is not among %s", name, names)
	return nil
}

// httpServer serves a handler and gives its configuration.
func httpServer(t *testing.T, h http.Handler) mcp.Config {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return mcp.Config{Name: "s", URL: server.URL + "/mcp", StartTimeout: patience, CallTimeout: patience}
}

type textIn struct {
	Text string `json:"text"`
}

type fileIn struct {
	File string `json:"file"`
}

type sumIn struct {
	A int64 `json:"a"`
	B int64 `json:"b"`
}

type sumOut struct {
	Sum int64 `json:"sum"`
}

func text(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

const pixel = "\x89PNG\r\n\x1a\nrest"

// goodServer is made with the official SDK.
func goodServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "good", Version: "1"}, &sdk.ServerOptions{Logger: slog.New(slog.DiscardHandler), PageSize: 3})
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "Echo."}, func(_ context.Context, _ *sdk.CallToolRequest, in textIn) (*sdk.CallToolResult, any, error) {
		return text(in.Text), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "add", Description: "Add."}, func(_ context.Context, _ *sdk.CallToolRequest, in sumIn) (*sdk.CallToolResult, sumOut, error) {
		return nil, sumOut{in.A + in.B}, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "fail", Description: "Fail."}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return nil, nil, errors.New("the disk is full")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "key", Description: "The key of the call."}, func(_ context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		return text(fmt.Sprint(r.Params.Meta[mcp.MetaIdempotencyKey])), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "slow", Description: "Wait until it is cancelled."}, func(ctx context.Context, _ *sdk.CallToolRequest, in fileIn) (*sdk.CallToolResult, any, error) {
		put(in.File, "started")
		<-ctx.Done()
		put(in.File, "cancelled")
		return text("cancelled"), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "crash", Description: "End in the middle of a call, unless the file is there."}, func(_ context.Context, _ *sdk.CallToolRequest, in fileIn) (*sdk.CallToolResult, any, error) {
		if _, err := os.Stat(in.File); err == nil {
			return text("survived"), nil, nil
		}
		put(in.File, "crashed")
		fmt.Fprintln(os.Stderr, "out of cheese")
		os.Exit(3)
		return nil, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "image", Description: "An image and audio."}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "look"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte(pixel)},
			&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("abc")}, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///a", Text: "inside"}},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///b", MIMEType: "application/pdf", Blob: []byte("12345")}}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "where", Description: "Directory, arguments, roots and a variable."}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		dir, _ := os.Getwd()
		roots := "none"
		//lint:ignore SA1019 Servers of today use it.
		if list, err := r.Session.ListRoots(ctx, nil); err == nil {
			roots = list.Roots[0].URI
		}
		return text(strings.Join([]string{dir, os.Args[len(os.Args)-1], roots, os.Getenv("MCP_TEST_SECRET"), fmt.Sprint(os.Getpid())}, "|")), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "ask", Description: "Ask for sampling."}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		//lint:ignore SA1019 Servers of today use it.
		_, err := r.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 1})
		return nil, nil, err
	})
	sdk.AddTool(s, &sdk.Tool{Name: "gone", Description: "Delete.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: new(true)}},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return text(""), nil, nil
		})
	return s
}

func put(file, what string) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = f.WriteString(what + "\n")
		_ = f.Close()
	}
}

func waitFor(t *testing.T, file, what string) {
	t.Helper()
	require.Eventually(t, func() bool {
		data, _ := os.ReadFile(file)
		return strings.Contains(string(data), what+"\n")
	}, patience, 10*time.Millisecond)
}

func scratch(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "file")
}
