package toolbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// bodies are the parts of a program for which the interpreter begins a goroutine: a panic in one, and there are commands
// on which it panics, would end the worker. So each such part is replaced by a call of a program that does not exist.
// The handler of programs is then the one that runs the part, in the same shell, and recovers.
type bodies struct {
	name string // of that program; nobody can know it

	mu    sync.Mutex
	texts []string
	known map[string]int
}

func newBodies(name string) *bodies { return &bodies{name: name, known: map[string]int{}} }

// extract takes the parts out of a program and reports whether there were any. Inner parts come first.
func (b *bodies) extract(file *syntax.File) (found bool, err error) {
	var nodes []syntax.Node
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			if n.Background || n.Disown {
				nodes = append(nodes, n)
			}
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
				nodes = append(nodes, n)
			}
		case *syntax.ProcSubst:
			nodes = append(nodes, n)
		}
		return true
	})
	for i := len(nodes) - 1; i >= 0 && err == nil; i-- {
		switch n := nodes[i].(type) {
		case *syntax.Stmt:
			inner := *n
			inner.Background, inner.Disown = false, false
			var call *syntax.Stmt
			if call, err = b.call(&inner); err == nil {
				call.Background, call.Disown = n.Background, n.Disown
				*n = *call
			}
		case *syntax.BinaryCmd:
			n.X, err = b.call(n.X)
		case *syntax.ProcSubst:
			var call *syntax.Stmt
			call, err = b.call(n.Stmts...)
			n.Stmts = []*syntax.Stmt{call}
		}
	}
	return len(nodes) > 0, err
}

// call keeps the text of statements and returns the call that stands for them.
func (b *bodies) call(stmts ...*syntax.Stmt) (*syntax.Stmt, error) {
	var text strings.Builder
	if err := syntax.NewPrinter().Print(&text, &syntax.File{Stmts: stmts}); err != nil {
		return nil, fmt.Errorf("the command cannot be printed: %w", err)
	}
	b.mu.Lock()
	id, known := b.known[text.String()]
	if !known {
		id = len(b.texts)
		b.texts, b.known[text.String()] = append(b.texts, text.String()), id
	}
	b.mu.Unlock()
	call := &syntax.CallExpr{}
	var at syntax.Pos
	if len(stmts) > 0 {
		at = stmts[0].Pos()
	}
	for _, word := range []string{b.name, strconv.Itoa(id)} {
		call.Args = append(call.Args, &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{ValuePos: at, ValueEnd: at, Value: word}}})
	}
	return &syntax.Stmt{Position: at, Cmd: call}, nil
}

// extractText is extract for text that a command runs in its turn. What does not parse stays as it is.
func (b *bodies) extractText(text string) (string, error) {
	file, err := parseText(text)
	if err != nil {
		return text, nil
	}
	if found, err := b.extract(file); err != nil || !found {
		return text, err
	}
	var out strings.Builder
	if err := syntax.NewPrinter().Print(&out, file); err != nil {
		return "", fmt.Errorf("the command cannot be printed: %w", err)
	}
	return out.String(), nil
}

// run runs the part that a call stands for.
func (b *bodies) run(ctx context.Context, argv []string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errShellFailed, p)
		}
	}()
	b.mu.Lock()
	id, err := strconv.Atoi(strings.Join(argv[1:], " "))
	if err != nil || id < 0 || id >= len(b.texts) {
		b.mu.Unlock()
		return interp.ExitStatus(127)
	}
	text := b.texts[id]
	b.mu.Unlock()
	return interp.HandlerCtx(ctx).Builtin(ctx, []string{"eval", text})
}
