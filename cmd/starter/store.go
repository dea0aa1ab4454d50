package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/storage"
)

// storeFlags say where the worker's blob store is.
type storeFlags struct{ config, blobs string }

func (f *storeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "the worker's configuration file, for its blob store")
	flags.StringVar(&f.blobs, "blobs", "", "folder of the blob store")
}

// dir is the folder that the flags mean, or the worker's default.
func (f *storeFlags) dir() (string, error) {
	switch {
	case f.config != "" && f.blobs != "":
		return "", exit.Usagef("see: starter --help", "--config and --blobs exclude each other")
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

// openStore opens the store at dir and makes none where there is none, nor of a folder that is another thing.
func openStore(dir string) (*blob.Dir, error) {
	if _, err := os.Stat(filepath.Join(dir, "store-id")); errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Failf(otherStore, "no blob store at %s", dir)
	}
	return blob.NewDir(dir)
}

// readBlob reads a blob of an agent from the store at dir.
func readBlob(ctx context.Context, dir string, v *view, ref blob.Ref) ([]byte, error) {
	store, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	data, err := store.Get(ctx, ref)
	return data, inStore(err, dir, store.ID(), v.store())
}

// inStore says of an error of the store at dir, whose id is have, what can be done. want is the id of the agent's store.
func inStore(err error, dir, have, want string) error {
	var missing *blob.NotFoundError
	var altered *blob.CorruptError
	switch {
	case errors.As(err, &missing) && want != "" && want != have:
		return exit.Failf(otherStore, "%s is blob store %.12s, the agent used %.12s: %w", dir, have, want, err)
	case errors.As(err, &missing) && want == have:
		return exit.WithHint(err, "it was deleted, or lost: blobs that no open run needs go with starter blobs prune")
	case errors.As(err, &missing):
		return exit.WithHint(err, otherStore)
	case errors.As(err, &altered):
		return exit.WithHint(err, "somebody or something has changed the file below "+dir+"; what it held can only come from a backup")
	}
	return err
}

// open opens the store that the flags mean.
func (f *storeFlags) open() (*blob.Dir, error) {
	dir, err := f.dir()
	if err != nil {
		return nil, err
	}
	return openStore(dir)
}

// defaultDriver has the payloads that were offloaded to the store of a worker here; nil if there is none.
func defaultDriver() *storage.Driver {
	store, err := (&storeFlags{}).open()
	if err != nil {
		return nil
	}
	d, err := storage.NewDriver(store, "")
	if err != nil {
		return nil
	}
	return d
}
