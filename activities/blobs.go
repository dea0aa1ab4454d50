package activities

import (
	"context"
	"encoding/json"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/protocol"
)

// load returns inline bytes, or those behind a reference of the given store. Errors have the types of the wire.
func (e *Engine) load(ctx context.Context, store string, inline json.RawMessage, ref *blob.Ref) (json.RawMessage, error) {
	if ref == nil {
		return inline, nil
	}
	if err := e.sameStore(store); err != nil {
		return nil, err
	}
	data, err := e.cfg.Blobs.Get(ctx, *ref)
	return data, wire(err)
}

// sameStore refuses to go on with another store than the one the agent started with.
func (e *Engine) sameStore(store string) error {
	if store == "" || store == e.cfg.Blobs.ID() {
		return nil
	}
	return temporal.NewNonRetryableApplicationError("the agent's blob store is \""+store+"\", this worker has \""+
		e.cfg.Blobs.ID()+"\"; all workers of one agent need the same", protocol.ErrorStore, nil)
}

// ofBlob is the form that an error of the store has on the wire, or nil for other errors. A shared file system may show a
// blob late, so one that is missing is looked for again as often as its activity is tried. One that is altered stays so.
func ofBlob(err error) error {
	var missing *blob.NotFoundError
	var altered *blob.CorruptError
	var invalid *blob.InvalidRefError
	msg := cut(err.Error(), mostError)
	switch {
	case errors.As(err, &missing):
		return temporal.NewApplicationError(msg, protocol.ErrorBlobMissing)
	case errors.As(err, &altered), errors.As(err, &invalid):
		return temporal.NewNonRetryableApplicationError(msg, protocol.ErrorBlobAltered, nil)
	}
	return nil
}

// altered reports an error of load that no waiting mends.
func altered(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == protocol.ErrorBlobAltered
}
