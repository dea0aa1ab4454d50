package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what is read from a server.
const (
	// MaxMessage bounds one message over the wire, in bytes.
	MaxMessage = 16 << 20
	// MaxTools, MaxPages and MaxListing bound what a server offers: in tools, in answers, and in bytes.
	MaxTools   = 1000
	MaxPages   = 100
	MaxListing = 16 << 20
)

// attempts is how often a request is tried that may be tried again.
const attempts = 3

// list asks for all pages. A connection that broke is made anew once: a listing changes nothing.
func (s *Server) list(ctx context.Context) ([]json.RawMessage, error) {
	dir := ""
	if s.cfg.PerDir {
		var err error
		if dir, err = s.places.empty(); err != nil {
			return nil, err
		}
	}
	at, err := s.places.take(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer at.leave()
	for n := 1; ; n++ {
		conn, err := at.session(ctx)
		if err != nil {
			return nil, err
		}
		list, err := conn.pages(ctx)
		var f *failure
		if err == nil || n == attempts || ctx.Err() != nil || !errors.As(err, &f) || !f.gone {
			return list, err
		}
	}
}

// pages reads the whole listing.
func (c *session) pages(ctx context.Context) ([]json.RawMessage, error) {
	var tools []json.RawMessage
	bytes, cursor := 0, ""
	seen := map[string]bool{}
	for range MaxPages {
		raw, asked, err := c.ask(ctx, `{"tools":[]}`, func(ctx context.Context, cs *sdk.ClientSession) error {
			_, err := cs.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list tools: %w", afterAsking(err, asked))
		}
		page, err := pageOf(raw)
		if err != nil {
			return nil, fmt.Errorf("list tools: the answer is no list: %s", quoted(err.Error()))
		}
		tools, bytes = append(tools, page.Tools.list...), bytes+len(raw)
		switch {
		case len(tools) > MaxTools || page.Tools.more:
			return nil, fmt.Errorf("list tools: it offers more than %d", MaxTools)
		case bytes > MaxListing:
			return nil, fmt.Errorf("list tools: they take more than %d MiB", MaxListing>>20)
		case page.NextCursor == "":
			return tools, nil
		case seen[page.NextCursor]:
			return nil, fmt.Errorf("list tools: the pages do not end: the cursor %q comes again", quoted(page.NextCursor))
		}
		cursor, seen[page.NextCursor] = page.NextCursor, true
	}
	return nil, fmt.Errorf("list tools: the pages do not end: there are more than %d", MaxPages)
}

// page is one answer to the question what there is.
type page struct {
	Tools      elements `json:"tools"`
	NextCursor string   `json:"nextCursor"`
}

func pageOf(raw json.RawMessage) (page, error) {
	p := page{Tools: elements{open: '[', most: MaxTools}}
	err := json.Unmarshal(raw, &p)
	if err == nil && isNull(raw) {
		err = errNull
	}
	return p, err
}

// afterAsking says what a server has asked for before it failed.
func afterAsking(err error, asked string) error {
	if asked == "" {
		return err
	}
	return fmt.Errorf("%w (before that it asked for %s, which it is not offered)", err, quoted(asked))
}
