package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/protocol"
)

// patchFlags are the flags of patch.
type patchFlags struct{ to, config, blobs string }

func (a *app) patchCommand() *cobra.Command {
	var f patchFlags
	cmd := &cobra.Command{
		Use:   "patch ID",
		Short: "Print the patch that an agent made",
		Long: `Print the patch that an agent made, and nothing else. Nobody applies it for you.

The bytes come from the blob store of the worker, which must be reachable from here: the default folder, the one that
--config names, or --blobs.`,
		Example: "  starter patch fix-1 | git apply\n  starter patch fix-1 --to fix.patch --config assent.yaml",
		GroupID: groupAgents,
		Args:    oneArg("the ID of an agent"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.patch(cmd.Context(), args[0], f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "write to this file instead of standard output")
	flags.StringVar(&f.config, "config", "", "the worker's configuration file, for its blob store")
	flags.StringVar(&f.blobs, "blobs", "", "folder of the blob store")
	a.serverFlags(cmd)
	return cmd
}

func (a *app) patch(ctx context.Context, id string, f patchFlags) error {
	if f.config != "" && f.blobs != "" {
		return exit.Usagef("see: starter patch --help", "--config and --blobs exclude each other")
	}
	dir, err := blobsDir(f)
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
	data, err := readBlob(ctx, dir, v, art.Ref)
	if err != nil {
		return err
	}
	for _, w := range art.Warnings {
		a.note("warning: %s", oneLine(w, 400))
	}
	if len(data) == 0 {
		a.note("the agent changed nothing: the patch is empty")
	}
	if f.to == "" {
		_, err := a.out.Write(data)
		return err
	}
	if err := os.WriteFile(f.to, data, 0o644); err != nil {
		return fmt.Errorf("write patch: %w", err)
	}
	a.note("%s: %d bytes, %s; apply it on %.12s with: git apply %s", f.to, len(data), count(len(art.Files), "file"), art.Base, shellQuote(f.to))
	return nil
}

// patchOf is the patch of an agent, which exists once its worktree was collected.
func patchOf(s *connect.Server, v *view) (protocol.Artifact, error) {
	for _, art := range v.artifacts() {
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

// blobsDir is the folder that the flags mean, or the worker's default.
func blobsDir(f patchFlags) (string, error) {
	switch {
	case f.blobs != "":
		return f.blobs, nil
	case f.config != "":
		file, err := config.Load(f.config)
		if err != nil {
			return "", err
		}
		return workerproc.BlobsDir(file)
	}
	return workerproc.BlobsDir(nil)
}

const otherStore = "run this where the worker's blob store is, or name it with --config FILE or --blobs DIR"

// readBlob reads from the store at dir and makes none where there is none.
func readBlob(ctx context.Context, dir string, v *view, ref blob.Ref) ([]byte, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Failf(otherStore, "no blob store at %s", dir)
	}
	store, err := blob.NewDir(dir)
	if err != nil {
		return nil, err
	}
	data, err := store.Get(ctx, ref)
	var missing *blob.NotFoundError
	switch want := v.store(); {
	case err == nil:
		return data, nil
	case errors.As(err, &missing) && want != "" && want != store.ID():
		return nil, exit.Failf(otherStore, "%s is blob store %.12s, the agent used %.12s: %w", dir, store.ID(), want, err)
	case errors.As(err, &missing):
		return nil, exit.WithHint(err, otherStore)
	}
	return nil, err
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
