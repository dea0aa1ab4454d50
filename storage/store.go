package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/fault"
)

// Config says how a team's driver is used as a blob store. The zero value is useful.
type Config struct {
	// ID names the store; empty means "external:" and the name of the driver. It is in histories and must not change.
	ID string
	// Codec is applied to what is stored, as the codec of a data converter would be: the SDK encrypts payloads before it
	// offloads them, and what the engine stores itself comes from here. Nil stores plain bytes.
	Codec converter.PayloadCodec
	// Missing tells of an error of the driver that it does not have what a claim means. Nil takes *blob.NotFoundError
	// alone; any other error counts as one that may pass.
	Missing func(error) bool
}

// Store is a team's storage driver as a blob.Store.
//
// A driver chooses its addresses itself, so references carry its claim. It cannot list: what runs leave is removed by
// whatever lifecycle the team has given it. The driver is told for which run it stores.
type Store struct {
	driver converter.StorageDriver
	cfg    Config
}

var _ blob.Store = (*Store)(nil)

// FromDriver makes a blob store of a driver that a team has in client.Options.ExternalStorage. No driver, or one without
// a name, is a *fault.ConfigError.
func FromDriver(d converter.StorageDriver, cfg Config) (*Store, error) {
	if d == nil || d.Name() == "" {
		return nil, fault.Configf("ExternalStorage", "a blob store needs a driver with a name")
	}
	if cfg.ID == "" {
		cfg.ID = "external:" + d.Name()
	}
	return &Store{driver: d, cfg: cfg}, nil
}

// ID is that of the Config.
func (s *Store) ID() string { return s.cfg.ID }

// ClaimError reports a driver whose claim cannot be a part of a reference.
type ClaimError struct {
	Driver string
	// Size is that of the claim in bytes of JSON, or 0 if the driver returned none.
	Size int
}

func (e *ClaimError) Error() string {
	if e.Size == 0 {
		return fmt.Sprintf("storage driver %q returned no claim for what it stored", e.Driver)
	}
	return fmt.Sprintf("storage driver %q returned a claim of %d bytes, at most %d fit into a reference", e.Driver, e.Size, blob.MaxClaim)
}

// Put stores data as a payload of binary/plain. Errors are *ClaimError, or those of codec, driver and ctx.
func (s *Store) Put(ctx context.Context, data []byte) (blob.Ref, error) {
	ref := blob.RefOf(data)
	fail := func(err error) (blob.Ref, error) {
		return blob.Ref{}, fmt.Errorf("blob: put %s: storage driver %q: %w", ref.SHA256, s.driver.Name(), err)
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	payloads := []*commonpb.Payload{{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingBinary)}, Data: data,
	}}
	if s.cfg.Codec != nil {
		var err error
		if payloads, err = s.cfg.Codec.Encode(payloads); err != nil {
			return fail(err)
		}
	}
	claims, err := s.driver.Store(converter.StorageDriverStoreContext{Context: ctx, Target: target(ctx)}, payloads)
	if err != nil {
		return fail(err)
	}
	if len(payloads) != 1 || len(claims) != 1 || len(claims[0].ClaimData) == 0 {
		return blob.Ref{}, &ClaimError{Driver: s.driver.Name()}
	}
	claim, err := json.Marshal(claims[0].ClaimData)
	if err != nil {
		return fail(err)
	}
	if len(claim) > blob.MaxClaim {
		return blob.Ref{}, &ClaimError{Driver: s.driver.Name(), Size: len(claim)}
	}
	ref.Claim = string(claim)
	return ref, nil
}

// target is the run for which an activity stores; a driver may keep payloads by run.
func target(ctx context.Context) converter.StorageDriverTargetInfo {
	if !activity.IsActivity(ctx) {
		return nil
	}
	info := activity.GetInfo(ctx)
	w := converter.StorageDriverWorkflowInfo{Namespace: info.Namespace, WorkflowID: info.WorkflowExecution.ID, RunID: info.WorkflowExecution.RunID}
	if info.WorkflowType != nil {
		w.WorkflowType = info.WorkflowType.Name
	}
	return w
}

// Get returns the bytes of ref. The error is a *blob.NotFoundError, also for a reference without a claim, a
// *blob.CorruptError, a *blob.InvalidRefError, or that of codec, driver and ctx.
func (s *Store) Get(ctx context.Context, ref blob.Ref) ([]byte, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	fail := func(err error) ([]byte, error) {
		return nil, fmt.Errorf("blob: get %s: storage driver %q: %w", ref.SHA256, s.driver.Name(), err)
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	missing := &blob.NotFoundError{Store: s.cfg.ID, Ref: ref}
	if ref.Claim == "" {
		return nil, missing
	}
	var claim converter.StorageDriverClaim
	if json.Unmarshal([]byte(ref.Claim), &claim.ClaimData) != nil || len(claim.ClaimData) == 0 {
		return nil, &blob.InvalidRefError{Ref: ref}
	}
	payloads, err := s.driver.Retrieve(converter.StorageDriverRetrieveContext{Context: ctx}, []converter.StorageDriverClaim{claim})
	switch gone := new(blob.NotFoundError); {
	case err != nil && (errors.As(err, &gone) || s.cfg.Missing != nil && s.cfg.Missing(err)):
		return nil, missing
	case err != nil:
		return fail(err)
	}
	if len(payloads) == 1 && payloads[0] != nil && s.cfg.Codec != nil {
		if payloads, err = s.cfg.Codec.Decode(payloads); err != nil {
			return fail(err)
		}
	}
	if len(payloads) != 1 || payloads[0] == nil {
		return fail(fmt.Errorf("it returned %d payloads for one claim", len(payloads)))
	}
	data := payloads[0].GetData()
	if got := blob.RefOf(data); !got.Same(ref) {
		return nil, &blob.CorruptError{Store: s.cfg.ID, Ref: ref, Got: got}
	}
	// A driver in memory may return what it holds.
	return append([]byte{}, data...), nil
}
