package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// good is a server that keeps the protocol. Its tools are listed in doc.go of internal/mcptest.
func good(o options) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "mcptest", Version: "1.0.0"}, &mcp.ServerOptions{PageSize: o.page})
	addTalk(s)
	addContent(s)
	addTrouble(s)
	addSelf(s)
	for i := range o.tools {
		mcp.AddTool(s, &mcp.Tool{Name: fmt.Sprintf("extra_%04d", i), Description: fmt.Sprintf("Says which of many tools it is: %d.", i)},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return text(fmt.Sprintf("extra %d", i)), nil, nil
			})
	}
	if o.describe != "" {
		s.AddReceivingMiddleware(describe(o.describe))
	}
	return s
}

// describe puts what a file holds in place of the description of echo.
func describe(file string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, req)
			list, ok := result.(*mcp.ListToolsResult)
			if err != nil || !ok {
				return result, err
			}
			says, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			changed := *list
			changed.Tools = slices.Clone(list.Tools)
			for i, t := range changed.Tools {
				if t.Name == "echo" {
					other := *t
					other.Description = string(says)
					changed.Tools[i] = &other
				}
			}
			return &changed, nil
		}
	}
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

type echoIn struct {
	Text string `json:"text" jsonschema:"what to say"`
}

type addIn struct {
	A int `json:"a"`
	B int `json:"b"`
}

type addOut struct {
	Sum int `json:"sum"`
}

type appendIn struct {
	File string `json:"file" jsonschema:"the file to add a line to"`
	Line string `json:"line"`
}

func addTalk(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Says what it is told.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in echoIn) (*mcp.CallToolResult, any, error) {
			return text(in.Text), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "Adds two numbers; the result is structured."},
		func(_ context.Context, _ *mcp.CallToolRequest, in addIn) (*mcp.CallToolResult, addOut, error) {
			return nil, addOut{in.A + in.B}, nil
		})
	destructive := true
	mcp.AddTool(s, &mcp.Tool{Name: "append", Description: "Adds a line to a file, once for each call.", Annotations: &mcp.ToolAnnotations{DestructiveHint: &destructive}},
		func(_ context.Context, _ *mcp.CallToolRequest, in appendIn) (*mcp.CallToolResult, any, error) {
			return text("added"), nil, add(in.File, in.Line)
		})
}

// add writes a line with one write, so that nobody reads half of it.
func add(file, line string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

type bigIn struct {
	Bytes int `json:"bytes" jsonschema:"how long the text is"`
}

func addContent(s *mcp.Server) {
	content := func(name, description string, blocks ...mcp.Content) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: description},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: blocks}, nil, nil
			})
	}
	var dot bytes.Buffer
	_ = png.Encode(&dot, image.NewGray(image.Rect(0, 0, 2, 2))) // a buffer takes everything
	content("image", "Shows a small picture.", &mcp.TextContent{Text: "a picture:"}, &mcp.ImageContent{Data: dot.Bytes(), MIMEType: "image/png"})
	content("broken_image", "Shows what is no picture.", &mcp.ImageContent{Data: []byte("no picture"), MIMEType: "image/png"})
	content("audio", "Plays a sound.", &mcp.AudioContent{Data: []byte("RIFF"), MIMEType: "audio/wav"})
	content("resource", "Embeds a text.", &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "test://text", MIMEType: "text/plain", Text: "embedded text"}})
	content("blob", "Embeds bytes.", &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "test://blob", MIMEType: "application/zip", Blob: []byte{1, 2, 3}}})
	content("link", "Names a resource.", &mcp.ResourceLink{URI: "test://linked", Name: "linked"})
	content("empty", "Returns nothing.")
	mcp.AddTool(s, &mcp.Tool{Name: "big", Description: "Returns a long text."},
		func(_ context.Context, _ *mcp.CallToolRequest, in bigIn) (*mcp.CallToolResult, any, error) {
			return text(strings.Repeat("x", in.Bytes)), nil, nil
		})
}

type slowIn struct {
	Seconds   int    `json:"seconds" jsonschema:"how long it takes"`
	Started   string `json:"started,omitempty" jsonschema:"a file that gets a line when it begins: the id of the process"`
	Cancelled string `json:"cancelled,omitempty" jsonschema:"a file that gets a line when it is cancelled"`
}

type crashIn struct {
	File string `json:"file,omitempty" jsonschema:"a file that gets a line before"`
}

func addTrouble(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: "slow", Description: "Takes its time and can be cancelled."},
		func(ctx context.Context, _ *mcp.CallToolRequest, in slowIn) (*mcp.CallToolResult, any, error) {
			if in.Started != "" {
				if err := add(in.Started, fmt.Sprint(os.Getpid())); err != nil {
					return nil, nil, err
				}
			}
			select {
			case <-time.After(time.Duration(in.Seconds) * time.Second):
				return text("done"), nil, nil
			case <-ctx.Done():
			}
			if in.Cancelled != "" {
				return nil, nil, add(in.Cancelled, "cancelled")
			}
			return nil, nil, ctx.Err()
		})
	mcp.AddTool(s, &mcp.Tool{Name: "crash", Description: "Ends the server in the middle of the call."},
		func(_ context.Context, _ *mcp.CallToolRequest, in crashIn) (*mcp.CallToolResult, any, error) {
			if in.File != "" {
				if err := add(in.File, "crashed"); err != nil {
					return nil, nil, err
				}
			}
			fmt.Fprintln(os.Stderr, "this server crashes because it was told to")
			os.Exit(7)
			return nil, nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "fail", Description: "Fails and says so in its result."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, errors.New("it failed as it was told to")
		})
	mcp.AddTool(s, &mcp.Tool{Name: "refuse", Description: "Fails by an error of the protocol."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, &jsonrpc.Error{Code: -32050, Message: "it was refused by the protocol"}
		})
}

func addSelf(s *mcp.Server) {
	self := func(name, description string, say func(*mcp.CallToolRequest) (string, error)) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: description},
			func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				says, err := say(req)
				return text(says), nil, err
			})
	}
	self("pid", "Says its process id.", func(*mcp.CallToolRequest) (string, error) { return fmt.Sprint(os.Getpid()), nil })
	self("cwd", "Says its working directory.", func(*mcp.CallToolRequest) (string, error) { return os.Getwd() })
	self("args", "Says its arguments.", func(*mcp.CallToolRequest) (string, error) { return strings.Join(os.Args[1:], " "), nil })
	self("environ", "Says the names of its environment variables.", func(*mcp.CallToolRequest) (string, error) {
		var names []string
		for _, entry := range os.Environ() {
			name, _, _ := strings.Cut(entry, "=")
			names = append(names, name)
		}
		slices.Sort(names)
		return strings.Join(names, "\n"), nil
	})
	self("meta", "Says the _meta of the call as JSON.", func(req *mcp.CallToolRequest) (string, error) {
		b, err := json.Marshal(req.Params.Meta)
		return string(b), err
	})
	self("client", "Says as JSON what the client said of itself when it connected.", func(req *mcp.CallToolRequest) (string, error) {
		b, err := json.Marshal(req.Session.InitializeParams())
		return string(b), err
	})
}
