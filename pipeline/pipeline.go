package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

// Config says how a Pipeline behaves. The zero Config is useful.
type Config struct {
	// Log gets failing observers and close functions; nil is slog.Default.
	Log *slog.Logger
	// ObserverTimeout bounds how long a call waits for one observer; zero is 5 seconds.
	ObserverTimeout time.Duration

	// The rest is for Execute alone; an engine passes its own to Judge and Run.

	// Chain decides on a call whose arguments are valid. Nil allows, or asks when the tool needs approval.
	Chain func(ctx context.Context, call Call) permission.Decision
	// Rules is the policy for a tool while it runs, such as permission.Chain.Rules; nil enforces nothing further.
	Rules func(toolName string) tool.Rules
	// Required names the guards without which nothing runs.
	Required []string
	// Dir and Isolation are those of every call.
	Dir, Isolation string
}

const defaultObserverTimeout = 5 * time.Second

// Pipeline holds the tools and the five stages. It is safe for concurrent use.
type Pipeline struct {
	config Config

	mu sync.Mutex
	// entries are all registrations, oldest first, also those of plugins that are still mounting.
	entries []*entry
	// taken holds those of entries that have a name, by key.
	taken   map[string]*entry
	scopes  []*Scope
	closing bool

	// live is replaced, never changed, so that a call keeps what it started with.
	live atomic.Pointer[snapshot]
}

// New returns an empty pipeline. A negative ObserverTimeout counts as zero.
func New(config Config) *Pipeline {
	if config.ObserverTimeout <= 0 {
		config.ObserverTimeout = defaultObserverTimeout
	}
	config.Required = slices.Clone(config.Required)
	p := &Pipeline{config: config, taken: map[string]*entry{}}
	p.live.Store(newSnapshot(nil))
	return p
}

// Close closes every scope, the youngest first, and refuses to mount from then on. It is idempotent.
func (p *Pipeline) Close() {
	p.mu.Lock()
	p.closing = true
	scopes := slices.Clone(p.scopes)
	p.mu.Unlock()
	for i := len(scopes) - 1; i >= 0; i-- {
		scopes[i].Close()
	}
}

// remove takes the registrations of s away. The caller holds p.mu.
func (p *Pipeline) remove(s *Scope) {
	gone := map[*entry]bool{}
	for _, e := range s.entries {
		gone[e] = true
		delete(p.taken, e.key())
	}
	p.entries = slices.DeleteFunc(slices.Clone(p.entries), func(e *entry) bool { return gone[e] })
	p.scopes = slices.DeleteFunc(slices.Clone(p.scopes), func(other *Scope) bool { return other == s })
	p.live.Store(newSnapshot(p.entries))
}

// logFailure writes one line about foreign code that failed where nothing else can report it.
func (p *Pipeline) logFailure(call *Call, message, plugin string, err error) {
	log := p.config.Log
	if log == nil {
		log = slog.Default()
	}
	attrs := []any{"plugin", plugin, "error", text(err)}
	if call != nil {
		attrs = append(attrs, "tool", call.Name, "call", call.ID)
	}
	// Neither a strange error nor a handler that panics may take the call down.
	_, _ = contain(func() (struct{}, error) {
		if c := (*crashError)(nil); errors.As(err, &c) && len(c.stack) > 0 {
			attrs = append(attrs, "stack", string(c.stack))
		}
		log.Error(message, attrs...)
		return struct{}{}, nil
	})
}
