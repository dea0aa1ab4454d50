package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worktree"
)

// largePart is the size of a stored part of a large file in bytes, and so what storing one takes of memory.
const largePart = 16 << 20

// storeLarge stores the files that have no room in a patch, in parts, and a list of them. It is nil without files.
func (e *Engine) storeLarge(ctx context.Context, files []worktree.LargeFile) (*protocol.Large, error) {
	if len(files) == 0 {
		return nil, nil
	}
	out := &protocol.Large{Files: len(files)}
	list := make([]protocol.LargeFile, 0, len(files))
	w := &partWriter{ctx: ctx, store: e.cfg.Blobs, size: largePart}
	for _, f := range files {
		w.parts = nil
		if err := f.Copy(ctx, w); err != nil {
			return nil, fmt.Errorf("store %q: %w", f.Path, err)
		}
		if err := w.flush(); err != nil {
			return nil, fmt.Errorf("store %q: %w", f.Path, err)
		}
		l := protocol.LargeFile{Path: f.Path, Mode: f.Mode, Size: f.Size, ID: f.ID, Parts: w.parts}
		if !utf8.ValidString(f.Path) {
			l.Name = []byte(f.Path)
		}
		list = append(list, l)
		out.Bytes += f.Size
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	out.Ref, err = e.cfg.Blobs.Put(ctx, text)
	return out, err
}

// partWriter puts what is written to it into a store, a part at a time.
type partWriter struct {
	ctx   context.Context
	store blob.Store
	size  int
	buf   []byte
	parts []blob.Ref
}

func (w *partWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		k := min(len(p), w.size-len(w.buf))
		w.buf = append(w.buf, p[:k]...)
		p = p[k:]
		if len(w.buf) == w.size {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// flush stores what is left.
func (w *partWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	ref, err := w.store.Put(w.ctx, w.buf)
	w.buf = w.buf[:0]
	w.parts = append(w.parts, ref)
	return err
}
