package mcp

import (
	"context"
	"slices"
	"sync"

	_ "github.com/modelcontextprotocol/go-sdk/mcp" // the client comes next

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

// Server is one MCP server as a source of tools. It is safe for concurrent use.
type Server struct {
	cfg Config

	mu sync.Mutex
	// offered and refused are of the last listing.
	offered []*tool.Def
	refused []Refused
}

// Refused is a tool that is not offered, and why.
type Refused struct {
	// Name is the server's own, without the prefix.
	Name string
	Why  string
}

// MaxMessage bounds one message over the wire, in bytes.
const MaxMessage = 16 << 20

// New checks everything that can be known without the server. Nothing is started or sent. Errors are *fault.ConfigError.
func New(c Config) (*Server, error) {
	c.clone()
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Server{cfg: c}, nil
}

// Name is that of the source.
func (s *Server) Name() string { return s.cfg.Name }

// Start connects and lists the tools once, so that what is wrong is known. It ends after StartTimeout.
func (s *Server) Start(ctx context.Context) error {
	_, err := s.Tools(ctx)
	return err
}

// Tools asks the server what it offers.
func (s *Server) Tools(context.Context) ([]*tool.Def, error) {
	return nil, &fault.NotBuiltError{Feature: "mcp"}
}

// Refused returns the tools of the last listing that are not offered, and why.
func (s *Server) Refused() []Refused {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

// names are the tools of the last listing.
func (s *Server) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, d := range s.offered {
		names = append(names, d.Name())
	}
	return names
}

// Close ends sessions and programs. Calls fail after it.
func (s *Server) Close() error { return nil }
