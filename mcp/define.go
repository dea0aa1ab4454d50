package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/tool"
)

// listed is a tool as a server describes it.
type listed struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations struct {
		Title       string          `json:"title"`
		Destructive json.RawMessage `json:"destructiveHint"`
	} `json:"annotations"`
	// broken says that the rest is described in another way than MCP's.
	broken error
}

// refusal is a Refused, and whether that is the server's fault.
type refusal struct {
	Refused
	faulty bool
}

const (
	// maxDescription bounds what a server says of a tool, in bytes.
	maxDescription = 8 << 10
	// maxNames bounds the names that an error lists.
	maxNames = 100
)

// define makes tools of a listing. The error is a *fault.ConfigError about a name that the server does not have,
// or the context's: large schemas take their time.
func (s *Server) define(ctx context.Context, list []json.RawMessage) ([]*tool.Def, []refusal, error) {
	var tools []listed
	var refused []refusal
	count := map[string]int{}
	for i, raw := range list {
		var named struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(raw, &named); err != nil || named.Name == "" {
			refused = append(refused, refusal{Refused{fmt.Sprintf("#%d", i+1), "it has no name"}, true})
			continue
		}
		t := listed{}
		t.broken = json.Unmarshal(raw, &t)
		t.Name = named.Name
		tools = append(tools, t)
		count[t.Name]++
	}
	if err := s.cfg.known(count); err != nil {
		return nil, nil, err
	}
	var defs []*tool.Def
	for _, t := range tools {
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("mcp server %q: reading what it offers takes too long: %w", s.cfg.Name, ctx.Err())
		}
		why, faulty := "", false
		switch {
		case s.cfg.Allow != nil && !slices.Contains(s.cfg.Allow, t.Name):
			why = "allow does not name it"
		case slices.Contains(s.cfg.Deny, t.Name):
			why = "deny names it"
		case count[t.Name] > 1:
			why, faulty = "the server offers it twice, and nobody knows which one is meant", true
		default:
			d, err := s.def(t)
			if err == nil {
				defs = append(defs, d)
				continue
			}
			why, faulty = cut(err.Error(), mostQuoted), true
		}
		refused = append(refused, refusal{Refused{cut(t.Name, 100), why}, faulty})
	}
	slices.SortFunc(defs, func(a, b *tool.Def) int { return strings.Compare(a.Name(), b.Name()) })
	slices.SortStableFunc(refused, func(a, b refusal) int { return strings.Compare(a.Name, b.Name) })
	return defs, slices.CompactFunc(refused, func(a, b refusal) bool { return a.Refused == b.Refused }), nil
}

// known reports names in the configuration that the server does not have.
func (c *Config) known(have map[string]int) error {
	for _, list := range []struct {
		key   string
		names []string
	}{{"allow", c.Allow}, {"deny", c.Deny}, {"approval", c.Approval}, {"risk", slices.Sorted(maps.Keys(c.Risk))}, {"idempotent", c.Idempotent}} {
		for _, name := range list.names {
			if have[name] > 0 {
				continue
			}
			e := c.errorf(list.key, "the server has no tool %q", cut(name, 100))
			for _, n := range slices.Sorted(maps.Keys(have)) {
				if len(e.Allowed) == maxNames {
					e.Allowed = append(e.Allowed, fmt.Sprintf("and %d more", len(have)-maxNames))
					break
				}
				e.Allowed = append(e.Allowed, cut(n, 100))
			}
			if len(have) == 0 {
				e.Msg += "; it has none at all"
			}
			return e
		}
	}
	return nil
}

// def makes one tool.
func (s *Server) def(t listed) (*tool.Def, error) {
	if t.broken != nil {
		return nil, fmt.Errorf("its description cannot be read: %w", t.broken)
	}
	if len(t.InputSchema) == 0 || string(t.InputSchema) == "null" {
		return nil, fault.Configf("inputSchema", "is missing")
	}
	// Whatever a server says of its own harmlessness is not heard.
	risk := s.cfg.Risk[t.Name]
	if string(t.Annotations.Destructive) == "true" {
		risk = tool.Destructive
	}
	idempotent := slices.Contains(s.cfg.Idempotent, t.Name)
	opts := []tool.Option{risk, tool.Timeout(s.cfg.CallTimeout)}
	if idempotent {
		opts = append(opts, tool.Idempotent())
	}
	if s.cfg.ApproveAll || slices.Contains(s.cfg.Approval, t.Name) {
		opts = append(opts, tool.NeedsApproval())
	}
	known := facts{reads: risk == tool.Read, repeatable: idempotent || risk == tool.Read}
	name := t.Name
	run := func(ctx context.Context, call *tool.Context, input json.RawMessage) (any, error) {
		return s.call(ctx, call, name, known, input)
	}
	return tool.FromSchema(*s.cfg.Prefix+t.Name, s.describe(t), t.InputSchema, run, opts...)
}

// describe is what a model is told of a tool.
func (s *Server) describe(t listed) string {
	text := cmp.Or(strings.TrimSpace(t.Description), strings.TrimSpace(t.Title), strings.TrimSpace(t.Annotations.Title))
	if text == "" {
		return fmt.Sprintf("The tool %s of the MCP server %s, which does not describe it.", t.Name, s.cfg.Name)
	}
	return cut(text, maxDescription)
}
