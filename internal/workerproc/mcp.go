package workerproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/mcp"
	"github.com/assent-dev/assent/tool"
)

// MCP holds the MCP servers of a file.
type MCP struct {
	file    *config.File
	servers []*Server
	log     *slog.Logger
}

// slowStart is when the log says which servers a worker waits for.
const slowStart = 2 * time.Second

// Server is one MCP server of a file. What it offers is known after MCP.Start.
type Server struct {
	*mcp.Server
	Conf config.MCPServer
	// Tools are what it offered when it was started; Err says why there are none.
	Tools []*tool.Def
	Err   error
	// answered is set when one of these is known.
	answered atomic.Bool
}

// OpenMCP makes the servers of these names, all of the file's if there are none, and starts nothing. Errors are
// *fault.ConfigError with the place in the file.
func OpenMCP(f *config.File, log *slog.Logger, names ...string) (*MCP, error) {
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(f.MCP))
	}
	m := &MCP{file: f, log: log}
	for _, name := range names {
		c := f.MCP[name]
		s, err := mcp.New(mcp.Config{
			Name: name, Command: c.Command, Env: c.Env, PassEnv: c.PassEnv, Dir: c.Dir, PerDir: c.PerDir,
			URL: c.URL, Headers: c.Headers, Token: c.Token, Prefix: c.Prefix, Allow: c.Allow, Deny: c.Deny,
			Approval: c.Approval, ApproveAll: c.ApproveAll, Risk: c.Risk, Idempotent: c.Idempotent,
			StartTimeout: c.StartTimeout, CallTimeout: c.CallTimeout, MaxResult: c.MaxResult, Log: log,
		})
		if err != nil {
			return nil, f.Locate("", err)
		}
		m.servers = append(m.servers, &Server{Server: s, Conf: c})
	}
	return m, f.Locate("", mcp.Check(m.bare()...))
}

func (m *MCP) bare() []*mcp.Server {
	out := make([]*mcp.Server, len(m.servers))
	for i, s := range m.servers {
		out[i] = s.Server
	}
	return out
}

// Servers returns them in the order of their names.
func (m *MCP) Servers() []*Server { return m.servers }

// Start starts all at once and asks each what it offers. The errors of servers that cannot be used are in them; Start
// itself returns that of servers which cannot be used together, or of a tool whose name is taken by one of stock.
func (m *MCP) Start(ctx context.Context, stock []*tool.Def) error {
	slow := time.AfterFunc(slowStart, m.waits)
	defer slow.Stop()
	var all sync.WaitGroup
	for _, s := range m.servers {
		all.Go(func() {
			s.Tools, s.Err = s.Server.Tools(ctx)
			s.answered.Store(true)
		})
	}
	all.Wait()
	for _, s := range m.servers {
		for _, d := range s.Tools {
			if slices.ContainsFunc(stock, func(o *tool.Def) bool { return o.Name() == d.Name() }) {
				return m.file.Locate("", fault.Configf(s.Conf.Key+".prefix", "the tool %q is a first-party tool too; a prefix tells them apart", d.Name()))
			}
		}
	}
	return m.file.Locate("", mcp.Check(m.bare()...))
}

// waits says which servers have not answered yet.
func (m *MCP) waits() {
	var names []string
	for _, s := range m.servers {
		if !s.answered.Load() {
			names = append(names, s.Name())
		}
	}
	if m.log != nil && len(names) > 0 {
		m.log.Warn("assent: the worker is not ready, because it waits for MCP servers", "servers", names)
	}
}

// Failed is the error of the first server that cannot be used and has to be, with its place in the file, or nil.
func (m *MCP) Failed() error {
	for _, s := range m.servers {
		if s.Err != nil && (s.Conf.Required || fault.IsConfig(s.Err)) {
			return m.Located(s)
		}
	}
	return nil
}

// Located is the error of a server with its place in the file.
func (m *MCP) Located(s *Server) error {
	if fault.IsConfig(s.Err) {
		return m.file.Locate("", s.Err)
	}
	key := s.Conf.Key + ".command"
	if s.Conf.URL != "" {
		key = s.Conf.Key + ".url"
	}
	at := m.file.Locate("", &fault.ConfigError{Key: key, Msg: s.Err.Error()})
	var e *fault.ConfigError
	if errors.As(at, &e) {
		e.Key = "" // the message has the name of the server
	}
	hint := ""
	if s.Conf.Required {
		hint = "with required: false a worker starts without it, and agents that need it wait"
	}
	return &exit.Error{Code: exit.Failed, Err: at, Hint: hint}
}

// Unfit are the tools that are refused although the file does not leave them out.
func (s *Server) Unfit() []mcp.Refused {
	return slices.DeleteFunc(s.Refused(), func(r mcp.Refused) bool { return s.LeftOut(r.Name) })
}

// LeftOut reports a tool that the file's allow or deny leaves out, by its original name.
func (s *Server) LeftOut(name string) bool {
	return s.Conf.Allow != nil && !slices.Contains(s.Conf.Allow, name) || slices.Contains(s.Conf.Deny, name)
}

// Sources are the servers as the engine takes them.
func (m *MCP) Sources() []tool.Source {
	out := make([]tool.Source, len(m.servers))
	for i, s := range m.servers {
		out[i] = s.Server
	}
	return out
}

// Close ends all servers.
func (m *MCP) Close() error {
	errs := make([]error, len(m.servers))
	var all sync.WaitGroup
	for i, s := range m.servers {
		all.Go(func() { errs[i] = s.Close() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// count says how many servers answered and what they offer, for the ready line.
func (m *MCP) count() string {
	if len(m.servers) == 0 {
		return ""
	}
	up, tools := 0, 0
	for _, s := range m.servers {
		if s.Err == nil {
			up++
		}
		tools += len(s.Tools)
	}
	of := plural(len(m.servers), "MCP server")
	if up < len(m.servers) {
		of = fmt.Sprintf("%d of %s", up, of)
	}
	return fmt.Sprintf(", %s with %s", of, plural(tools, "tool"))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// doubts says which servers do not answer, and what of the others no agent gets.
func (m *MCP) doubts(w io.Writer) {
	for _, s := range m.servers {
		if s.Err != nil {
			fmt.Fprintf(w, "warning: agents that need an MCP server wait for it: %s\n", strings.ReplaceAll(s.Err.Error(), "\n", "\n  "))
			continue
		}
		for _, r := range s.Unfit() {
			fmt.Fprintf(w, "warning: MCP server %q: no agent gets its tool %q: %s\n", s.Name(), short(r.Name), r.Why)
		}
		if !m.listed(s.Name()) {
			fmt.Fprintf(w, "warning: MCP server %q is in no profile's list of tools: agents get it only if their input names it\n", s.Name())
		}
	}
}

func (m *MCP) listed(name string) bool {
	for _, p := range m.file.Profiles {
		if slices.Contains(p.Tools, name) {
			return true
		}
	}
	return false
}

// short cuts a name that a server made up.
func short(name string) string {
	const most = 80
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}
