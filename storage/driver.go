package storage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/fault"
)

// DriverType is the type of a Driver, and its name unless another one is given.
const DriverType = "assent.blob"

// The members of a claim. They are in histories and do not change.
const (
	claimStore = "store"
	claimSum   = "sha256"
	claimSize  = "size"
	claimOwn   = "claim"
)

// Driver keeps offloaded payloads of Temporal in a blob store. Equal payloads are one blob. Every client and worker that
// reads them needs a driver of the same name with the same store.
type Driver struct {
	name  string
	store blob.Store
}

var _ converter.StorageDriver = (*Driver)(nil)

// NewDriver makes a driver for client.Options.ExternalStorage. An empty name is DriverType; two stores in one
// configuration need two names. A store without an id is a *fault.ConfigError.
func NewDriver(store blob.Store, name string) (*Driver, error) {
	if store == nil || store.ID() == "" {
		return nil, fault.Configf("ExternalStorage", "a driver needs a blob store with an id")
	}
	if name == "" {
		name = DriverType
	}
	return &Driver{name: name, store: store}, nil
}

// Name is what histories name the driver by.
func (d *Driver) Name() string { return d.name }

// Type is DriverType.
func (d *Driver) Type() string { return DriverType }

// Store keeps payloads and returns a claim for each, in their order.
func (d *Driver) Store(ctx converter.StorageDriverStoreContext, payloads []*commonpb.Payload) ([]converter.StorageDriverClaim, error) {
	limit := ctx.GetLimiter()
	return each(ctx.Context, payloads, func(ctx context.Context, p *commonpb.Payload) (claim converter.StorageDriverClaim, err error) {
		err = limit.Permit(ctx, p, func() error { claim, err = d.put(ctx, p); return err })
		return claim, err
	})
}

func (d *Driver) put(ctx context.Context, p *commonpb.Payload) (converter.StorageDriverClaim, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return converter.StorageDriverClaim{}, fmt.Errorf("encode payload: %w", err)
	}
	ref, err := d.store.Put(ctx, data)
	if err != nil {
		return converter.StorageDriverClaim{}, err
	}
	claim := map[string]string{claimStore: d.store.ID(), claimSum: ref.SHA256, claimSize: strconv.FormatInt(ref.Size, 10)}
	if ref.Claim != "" {
		claim[claimOwn] = ref.Claim
	}
	return converter.StorageDriverClaim{ClaimData: claim}, nil
}

// Retrieve returns the payloads of claims, in their order. Errors are *OtherStoreError, and those of blob.Store.Get.
func (d *Driver) Retrieve(ctx converter.StorageDriverRetrieveContext, claims []converter.StorageDriverClaim) ([]*commonpb.Payload, error) {
	limit := ctx.GetLimiter()
	return each(ctx.Context, claims, func(ctx context.Context, c converter.StorageDriverClaim) (p *commonpb.Payload, err error) {
		err = limit.Permit(ctx, c, func() error { p, err = d.get(ctx, c); return err })
		return p, err
	})
}

func (d *Driver) get(ctx context.Context, c converter.StorageDriverClaim) (*commonpb.Payload, error) {
	ref, err := d.Ref(c)
	if err != nil {
		return nil, err
	}
	data, err := d.store.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	p := &commonpb.Payload{}
	if err := proto.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("blob %s is no payload: %w", ref.SHA256, err)
	}
	return p, nil
}

// Ref is the blob that a claim of this driver means. Errors are *OtherStoreError and *blob.InvalidRefError.
func (d *Driver) Ref(c converter.StorageDriverClaim) (blob.Ref, error) {
	ref := blob.Ref{SHA256: c.ClaimData[claimSum], Claim: c.ClaimData[claimOwn]}
	size, err := strconv.ParseInt(c.ClaimData[claimSize], 10, 64)
	if err != nil {
		size = -1
	}
	ref.Size = size
	if err := ref.Validate(); err != nil {
		return ref, err
	}
	if id := c.ClaimData[claimStore]; id != d.store.ID() {
		return ref, &OtherStoreError{Driver: d.name, Want: id, Have: d.store.ID()}
	}
	return ref, nil
}

// OtherStoreError reports a payload that lies in another blob store than the driver's.
type OtherStoreError struct {
	Driver string
	// Want is the id of the store that has the payload, Have that of the driver's.
	Want, Have string
}

func (e *OtherStoreError) Error() string {
	return fmt.Sprintf("the payload is in blob store %q, driver %q has %q; all clients and workers of a run need the same", e.Want, e.Driver, e.Have)
}

// each works on all items at once, under the limiter of the SDK, and returns what comes of them in their order.
func each[In, Out any](ctx context.Context, in []In, do func(context.Context, In) (Out, error)) ([]Out, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, errs := make([]Out, len(in)), make([]error, len(in))
	var wg sync.WaitGroup
	for i, item := range in {
		wg.Go(func() {
			if out[i], errs[i] = do(ctx, item); errs[i] != nil {
				stop(errs[i])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		// The first one, and not those of items that were cancelled for it.
		return nil, context.Cause(ctx)
	}
	return out, nil
}
