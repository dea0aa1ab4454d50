package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/protocol"
)

// patchFlags are the flags of patch.
type patchFlags struct {
	to, check, large string
	force            bool
	storeFlags
}

func (a *app) patchCommand() *cobra.Command {
	var f patchFlags
	cmd := &cobra.Command{
		Use:   "patch ID",
		Short: "Print the patch that an agent made",
		Long: `Print the patch that an agent made, and nothing else. Nobody applies it for you.

The bytes come from the blob store of the worker, which must be reachable from here: the default folder, the one that
--config names, or --blobs. What the patch cannot say, and what the agent changed in the repository that it shares with you,
goes to standard error.

With --check PATH nothing is printed of the patch: it is tried on the checkout at PATH, which is not changed, and the exit code is 0
only if it applies there. It needs git.`,
		Example: "  starter patch fix-1 | git apply\n  starter patch fix-1 --check . && starter patch fix-1 | git apply\n  starter patch fix-1 --to fix.patch --config assent.yaml",
		GroupID: groupAgents,
		Args:    oneArg("the ID of an agent"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.to != "" && f.check != "":
				return exit.Usagef("", "--to and --check exclude each other")
			case f.force && f.to == "":
				return exit.Usagef("", "--force needs --to")
			}
			return a.patch(cmd.Context(), args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "write to this file, which must not exist; - is standard output")
	flags.BoolVar(&f.force, "force", false, "with --to: replace the file if it exists")
	flags.StringVar(&f.check, "check", "", "only say whether it applies to the checkout at this path")
	flags.StringVar(&f.large, "large", "", "write the files that had no room in the patch below this folder")
	f.add(cmd)
	a.serverFlags(cmd)
	return cmd
}

func (a *app) patch(ctx context.Context, id string, f patchFlags) error {
	dir, err := f.dir()
	if err != nil {
		return err
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	v, err := load(ctx, s, id)
	if err != nil {
		return err
	}
	art, err := patchOf(s, v)
	if err != nil {
		return err
	}
	a.warnOf(art)
	data, err := readBlob(ctx, dir, v, art.Ref)
	if err != nil {
		return err
	}
	if len(data) == 0 && art.Large == nil {
		a.note("the agent changed nothing: the patch is empty")
	}
	if err := a.beside(ctx, dir, v, art.Large, f.large); err != nil {
		return err
	}
	if f.check != "" {
		return a.checkPatch(ctx, art, data, f.check)
	}
	if f.to == "" || f.to == "-" {
		_, err := a.out.Write(data)
		return err
	}
	err = writeWhole(f.to, data, f.force)
	if errors.Is(err, fs.ErrExist) {
		return exit.Failf("--force replaces it", "write patch: %w", err)
	}
	if err != nil {
		return fmt.Errorf("write patch: %w", err)
	}
	a.note("%s: %d bytes, %s; apply it on %.12s with: git apply %s", f.to, len(data), count(len(art.Files), "file"), art.Base, shellQuote(f.to))
	return nil
}

// warnOf says what a patch does not: first what makes git run a program in the user's own repository.
func (a *app) warnOf(art protocol.Artifact) {
	if art.Error != "" {
		a.note("error: %s", oneLine(art.Error, 2000))
	}
	for _, dangerous := range []bool{true, false} {
		for _, c := range art.HostChanges {
			switch {
			case c.Dangerous != dangerous, dangerous && art.Error != "":
			case dangerous:
				a.note("warning: look before you run git: the agent's tree shares a repository with you, in which %s was %s; it can run programs",
					oneLine(c.Key, mostLine), oneLine(c.Change, mostLine))
			default:
				a.note("note: in the repository %s was %s", oneLine(c.Key, mostLine), oneLine(c.Change, mostLine))
			}
		}
	}
	for _, w := range art.Warnings {
		a.note("warning: %s", oneLine(w, 400))
	}
}

// patchOf is the patch of an agent, which exists once its worktree was collected.
func patchOf(s *connect.Server, v *view) (protocol.Artifact, error) {
	// The last one, should there be several: it is of the attempt that ended.
	for _, art := range slices.Backward(v.artifacts()) {
		if art.Kind == protocol.ArtifactPatch {
			return art, nil
		}
	}
	switch {
	case v.end == nil:
		return protocol.Artifact{}, exit.Failf("wait for it with: "+again(s, "watch", v.id), "agent %q has no patch yet: it is still at work", v.id)
	case v.isolation() != "worktree":
		return protocol.Artifact{}, exit.Failf("", "agent %q made no patch: it did not run in a worktree", v.id)
	}
	return protocol.Artifact{}, exit.Failf("see: "+again(s, "show", v.id), "agent %q ended without a patch", v.id)
}

// isolation is where the agent's tools ran.
func (v *view) isolation() string {
	if v.ready == nil {
		return ""
	}
	return string(v.ready.Isolation.Kind)
}

// store is the id of the blob store that the agent used.
func (v *view) store() string {
	if v.ready == nil {
		return ""
	}
	return v.ready.Store
}

// artifacts are those of the result, or of a worktree that was collected before the end.
func (v *view) artifacts() []protocol.Artifact {
	if v.end != nil && v.end.Result != nil && len(v.end.Result.Artifacts) > 0 {
		return v.end.Result.Artifacts
	}
	var out []protocol.Artifact
	for _, t := range v.trees {
		if t.Phase == follow.Collected && t.Artifact != nil {
			out = append(out, *t.Artifact)
		}
	}
	return out
}
