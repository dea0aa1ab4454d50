package main

import (
	"context"
	"fmt"
	"io"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/model/scripted"
)

// show prints what each agent made, and where two of them changed the same file.
func show(ctx context.Context, store blob.Store, pieces []Piece, w io.Writer) error {
	for _, p := range pieces {
		fmt.Fprintf(w, "%s: %s\n", p.Task, p.Status)
		for _, a := range p.Artifacts {
			patch, err := store.Get(ctx, a.Ref)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%s", patch)
		}
		for _, c := range p.Conflicts {
			fmt.Fprintln(w, "conflict:", c)
		}
	}
	return nil
}

// scripts play the model: the first two agents write a file each, the third one the file of the second.
func scripts() scripted.Set {
	set := scripted.Set{}
	for task, file := range map[string]string{"intro": "INTRO.md", "guide": "GUIDE.md", "index": "GUIDE.md"} {
		set[task], _ = scripted.Parse(task, fmt.Appendf(nil, "turns: [{calls: [{tool: write_file, args: {path: %s, content: %q}}]}, {say: done}]", file, task+"\n"))
	}
	return set
}
