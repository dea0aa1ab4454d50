package mcp

import (
	"log/slog"
	"sync"
)

// notices are what is said of a server once, however often it does it.
type notices struct {
	log *slog.Logger

	mu   sync.Mutex
	told map[string]bool
}

// mostTold bounds what is remembered: a server can be wrong in a new way each time.
const mostTold = 1000

func (n *notices) once(what, msg string, args ...any) {
	n.mu.Lock()
	first := !n.told[what] && len(n.told) < mostTold
	if n.told == nil {
		n.told = map[string]bool{}
	}
	if first {
		n.told[what] = true
	}
	n.mu.Unlock()
	if first {
		n.log.Warn(msg, args...)
	}
}
