package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// The metadata by which the SDK marks a payload that it has offloaded.
const (
	metadataType   = "messageType"
	encodingLegacy = "json/external-storage-reference"
)

var referenceType = string((*sdkpb.ExternalStorageReference)(nil).ProtoReflect().Descriptor().FullName())

// Claimed reports whether a payload was offloaded: what it holds is then not a value but where the value is. The driver's
// name and claim are empty if they cannot be read.
func Claimed(p *commonpb.Payload) (driver string, claim converter.StorageDriverClaim, ok bool) {
	switch string(p.GetMetadata()[converter.MetadataEncoding]) {
	case converter.MetadataEncodingProtoJSON:
		if string(p.GetMetadata()[metadataType]) != referenceType {
			return "", claim, false
		}
		var ref sdkpb.ExternalStorageReference
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(p.GetData(), &ref) == nil {
			driver, claim.ClaimData = ref.GetDriverName(), ref.GetClaimData()
		}
		return driver, claim, true
	case encodingLegacy:
		var ref struct {
			Driver string                       `json:"driver_name"`
			Claim  converter.StorageDriverClaim `json:"driver_claim"`
		}
		if json.Unmarshal(p.GetData(), &ref) == nil {
			driver, claim = ref.Driver, ref.Claim
		}
		return driver, claim, true
	}
	return "", claim, false
}

// UnreadableError reports an event with a payload that was offloaded and cannot be had here.
type UnreadableError struct {
	EventID int64
	// Driver is the name under which histories know the storage.
	Driver string
	// Cause is nil if there is no driver of that name.
	Cause error
}

func (e *UnreadableError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("event %d has a payload in the external storage %q, for which there is no driver here", e.EventID, e.Driver)
	}
	return fmt.Sprintf("event %d has a payload in the external storage %q: %v", e.EventID, e.Driver, e.Cause)
}

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Cause }

// Restore returns the event with the values of its offloaded payloads, by the drivers of their names. An event without
// any is returned as it is, the others are copied. Errors are *UnreadableError.
func Restore(ctx context.Context, e *historypb.HistoryEvent, drivers ...converter.StorageDriver) (*historypb.HistoryEvent, error) {
	return restored(ctx, e, false, drivers)
}

// restored leaves claims of drivers that are not known where others says so.
func restored(ctx context.Context, e *historypb.HistoryEvent, others bool, drivers []converter.StorageDriver) (*historypb.HistoryEvent, error) {
	if _, ok := Offloaded(e); !ok {
		return e, nil
	}
	e = proto.Clone(e).(*historypb.HistoryEvent)
	err := visit(ctx, e, func(p *commonpb.Payload) (*commonpb.Payload, error) {
		name, claim, ok := Claimed(p)
		if !ok {
			return p, nil
		}
		for _, d := range drivers {
			if d.Name() != name {
				continue
			}
			got, err := d.Retrieve(converter.StorageDriverRetrieveContext{Context: ctx}, []converter.StorageDriverClaim{claim})
			if err == nil && (len(got) != 1 || got[0] == nil) {
				err = fmt.Errorf("the driver returned %d payloads for one claim", len(got))
			}
			if err != nil {
				return nil, &UnreadableError{EventID: e.GetEventId(), Driver: name, Cause: err}
			}
			return got[0], nil
		}
		if others {
			return p, nil
		}
		return nil, &UnreadableError{EventID: e.GetEventId(), Driver: name}
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// errClaim ends the search for a claim.
var errClaim = errors.New("a claim")

// Offloaded reports whether an event has a payload that was offloaded, and the name of the driver of the first one.
func Offloaded(e *historypb.HistoryEvent) (driver string, ok bool) {
	err := visit(context.Background(), e, func(p *commonpb.Payload) (*commonpb.Payload, error) {
		var claimed bool
		if driver, _, claimed = Claimed(p); claimed {
			return nil, errClaim
		}
		return p, nil
	})
	return driver, errors.Is(err, errClaim)
}

// visit takes every payload of an event, in headers, failures, markers and summaries too.
func visit(ctx context.Context, e *historypb.HistoryEvent, each func(*commonpb.Payload) (*commonpb.Payload, error)) error {
	return proxy.VisitPayloads(ctx, e, proxy.VisitPayloadsOptions{
		Visitor: func(_ *proxy.VisitPayloadsContext, list []*commonpb.Payload) ([]*commonpb.Payload, error) {
			out := make([]*commonpb.Payload, len(list))
			for i, p := range list {
				var err error
				if out[i], err = each(p); err != nil {
					return nil, err
				}
			}
			return out, nil
		},
		SkipSearchAttributes: true,
	})
}

// Payloads calls each for every payload of an event, and ends with its first error.
func Payloads(e *historypb.HistoryEvent, each func(*commonpb.Payload) error) error {
	return visit(context.Background(), e, func(p *commonpb.Payload) (*commonpb.Payload, error) { return p, each(p) })
}

// Reading returns a client whose histories have the values of offloaded payloads, by drivers of their names. The SDK
// restores what workers and callers get, and leaves histories as they are. What lies with another driver stays a claim,
// which readers can tell by Claimed; what a driver here cannot give ends its history with an *UnreadableError.
func Reading(c client.Client, drivers ...converter.StorageDriver) client.Client {
	if len(drivers) == 0 {
		return c
	}
	return &reading{c, drivers}
}

type reading struct {
	client.Client
	drivers []converter.StorageDriver
}

func (r *reading) GetWorkflowHistory(ctx context.Context, workflowID, runID string, long bool, filter enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	return &restoring{r.Client.GetWorkflowHistory(ctx, workflowID, runID, long, filter), ctx, r.drivers}
}

// restoring is an iterator, which has to keep the context of its history.
type restoring struct {
	client.HistoryEventIterator
	ctx     context.Context
	drivers []converter.StorageDriver
}

func (i *restoring) Next() (*historypb.HistoryEvent, error) {
	e, err := i.HistoryEventIterator.Next()
	if err != nil {
		return nil, err
	}
	return restored(i.ctx, e, true, i.drivers)
}
