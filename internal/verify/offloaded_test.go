package verify_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/storage"
)

// offload is what the SDK leaves of an event when every payload is large.
func offload(t *testing.T, d converter.StorageDriver, e *historypb.HistoryEvent) *historypb.HistoryEvent {
	t.Helper()
	e = proto.Clone(e).(*historypb.HistoryEvent)
	require.NoError(t, proxy.VisitPayloads(t.Context(), e, proxy.VisitPayloadsOptions{SkipSearchAttributes: true,
		Visitor: func(_ *proxy.VisitPayloadsContext, in []*commonpb.Payload) ([]*commonpb.Payload, error) {
			claims, err := d.Store(converter.StorageDriverStoreContext{Context: context.Background()}, in)
			if err != nil {
				return nil, err
			}
			out := make([]*commonpb.Payload, len(in))
			for i, c := range claims {
				data, err := json.Marshal(map[string]any{"driverName": d.Name(), "claimData": c.ClaimData})
				if err != nil {
					return nil, err
				}
				out[i] = &commonpb.Payload{Data: data, Metadata: map[string][]byte{"encoding": []byte("json/protobuf"),
					"messageType": []byte("temporal.api.sdk.v1.ExternalStorageReference")}}
			}
			return out, nil
		}}))
	return e
}

// With the driver, a history whose payloads were offloaded says what it said before. Without, what is missing is said,
// and nothing is said of it that is not so.
func TestOffloadedPayloads(t *testing.T) {
	d, err := storage.NewDriver(blob.NewMemory("m"), "bucket")
	require.NoError(t, err)
	// These are about what a claim holds, which is not the value.
	wrong := []verify.Kind{verify.OtherInput, verify.OtherCall}
	for name, path := range committed(t) {
		t.Run(name, func(t *testing.T) {
			events := read(t, path)
			want := verify.History(events, verify.Options{})
			away, back := make([]*historypb.HistoryEvent, len(events)), make([]*historypb.HistoryEvent, len(events))
			for i, e := range events {
				away[i] = offload(t, d, e)
				back[i], err = storage.Restore(t.Context(), away[i], d)
				require.NoError(t, err)
			}
			require.Equal(t, want, verify.History(back, verify.Options{}))
			for i := range events {
				one := append([]*historypb.HistoryEvent{}, events...)
				one[i] = away[i]
				for _, f := range verify.History(one, verify.Options{}).Findings {
					require.NotContains(t, wrong, f.Kind, "event %d: %s", f.EventID, f.Why)
				}
			}
			told := 0
			for _, f := range verify.History(away, verify.Options{}).Findings {
				require.NotContains(t, wrong, f.Kind, "event %d: %s", f.EventID, f.Why)
				if strings.Contains(f.Why, `it lies in the external storage "bucket"`) {
					told++
				}
			}
			if want.State == verify.Gated {
				require.NotZero(t, told)
			}
		})
	}
}
