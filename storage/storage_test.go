package storage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"google.golang.org/protobuf/proto"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/blob/blobtest"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/storage"
)

// bucket is a team's driver: it gives each stored payload an address of its own.
type bucket struct {
	name string
	mu   sync.Mutex
	held map[string]*commonpb.Payload
	// targets are those for which it has stored.
	targets []converter.StorageDriverTargetInfo
	// fails is what Retrieve returns, claims changes what Store returns.
	fails  error
	claims func([]converter.StorageDriverClaim) []converter.StorageDriverClaim
}

func (b *bucket) Name() string { return b.name }
func (b *bucket) Type() string { return "test.bucket" }

func (b *bucket) Store(ctx converter.StorageDriverStoreContext, payloads []*commonpb.Payload) ([]converter.StorageDriverClaim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []converter.StorageDriverClaim
	for _, p := range payloads {
		key := fmt.Sprintf("%s/%d", b.name, len(b.held))
		b.held[key] = proto.Clone(p).(*commonpb.Payload)
		b.targets = append(b.targets, ctx.Target)
		out = append(out, converter.StorageDriverClaim{ClaimData: map[string]string{"key": key}})
	}
	if b.claims != nil {
		out = b.claims(out)
	}
	return out, ctx.Context.Err()
}

var errNoSuchKey = errors.New("no such key")

func (b *bucket) Retrieve(ctx converter.StorageDriverRetrieveContext, claims []converter.StorageDriverClaim) ([]*commonpb.Payload, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*commonpb.Payload
	for _, c := range claims {
		p, ok := b.held[c.ClaimData["key"]]
		if !ok {
			return nil, errNoSuchKey
		}
		out = append(out, p)
	}
	return out, errors.Join(b.fails, ctx.Context.Err())
}

func newBucket(name string) *bucket { return &bucket{name: name, held: map[string]*commonpb.Payload{}} }

func fromDriver(t *testing.T, d converter.StorageDriver, cfg storage.Config) *storage.Store {
	t.Helper()
	s, err := storage.FromDriver(d, cfg)
	require.NoError(t, err)
	return s
}

func gone(err error) bool { return errors.Is(err, errNoSuchKey) }

func TestTheirsKeepsTheContractOfOurs(t *testing.T) {
	n := 0
	blobtest.RunPlace(t, func(t *testing.T) blobtest.Place {
		n++
		b := newBucket(fmt.Sprint("bucket-", n))
		return blobtest.Place{
			Open: func(t *testing.T) blob.Store { return fromDriver(t, b, storage.Config{Missing: gone}) },
			Damage: func(t *testing.T, ref blob.Ref, data []byte) {
				var claim map[string]string
				require.NoError(t, json.Unmarshal([]byte(ref.Claim), &claim))
				b.held[claim["key"]].Data = data
			},
		}
	})
}

func TestBothWaysRoundKeepTheContract(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blobtest.Opener {
		m := blob.NewMemory("")
		return func(t *testing.T) blob.Store {
			d, err := storage.NewDriver(m, "")
			require.NoError(t, err)
			return fromDriver(t, d, storage.Config{ID: "round " + m.ID()})
		}
	})
}

func TestTheirsIsToldForWhichRun(t *testing.T) {
	b := newBucket("b")
	s := fromDriver(t, b, storage.Config{})
	require.Equal(t, "external:b", s.ID())
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(10 * time.Minute)
	put := func(ctx context.Context) (blob.Ref, error) { return s.Put(ctx, []byte("x")) }
	env.RegisterActivityWithOptions(put, activity.RegisterOptions{Name: "put"})
	_, err := env.ExecuteActivity("put")
	require.NoError(t, err)
	_, err = s.Put(t.Context(), []byte("x"))
	require.NoError(t, err)
	require.Len(t, b.targets, 2)
	w, ok := b.targets[0].(converter.StorageDriverWorkflowInfo)
	require.True(t, ok)
	require.Equal(t, "default-test-workflow-id", w.WorkflowID)
	require.Equal(t, "default-test-namespace", w.Namespace)
	require.NotEmpty(t, w.RunID)
	require.Nil(t, b.targets[1])
}

// xor is a codec.
type xor struct{ key byte }

func (x xor) Encode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(in))
	for i, p := range in {
		out[i] = &commonpb.Payload{Metadata: maps.Clone(p.GetMetadata())}
		for _, b := range p.GetData() {
			out[i].Data = append(out[i].Data, b^x.key)
		}
	}
	return out, nil
}

func (x xor) Decode(in []*commonpb.Payload) ([]*commonpb.Payload, error) { return x.Encode(in) }

func TestTheCodecOfATeamIsApplied(t *testing.T) {
	b := newBucket("b")
	s := fromDriver(t, b, storage.Config{Codec: xor{7}})
	ref, err := s.Put(t.Context(), []byte("secret"))
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(b.held), "secret")
	got, err := s.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, "secret", string(got))

	_, err = fromDriver(t, b, storage.Config{Codec: xor{8}}).Get(t.Context(), ref)
	var corrupt *blob.CorruptError
	require.ErrorAs(t, err, &corrupt, "another key is no other value")
}

func TestWhatADriverCannotDo(t *testing.T) {
	b := newBucket("b")
	s := fromDriver(t, b, storage.Config{})
	ref, err := s.Put(t.Context(), []byte("x"))
	require.NoError(t, err)

	b.held = map[string]*commonpb.Payload{}
	_, err = s.Get(t.Context(), ref)
	require.ErrorIs(t, err, errNoSuchKey, "an error that nobody knows may pass")
	missing := new(blob.NotFoundError)
	require.False(t, errors.As(err, &missing))
	_, err = fromDriver(t, b, storage.Config{Missing: gone}).Get(t.Context(), ref)
	require.ErrorAs(t, err, &missing)

	for name, change := range map[string]func([]converter.StorageDriverClaim) []converter.StorageDriverClaim{
		"no claim":     func([]converter.StorageDriverClaim) []converter.StorageDriverClaim { return nil },
		"an empty one": func(c []converter.StorageDriverClaim) []converter.StorageDriverClaim { c[0].ClaimData = nil; return c },
		"two":          func(c []converter.StorageDriverClaim) []converter.StorageDriverClaim { return append(c, c[0]) },
		"a long one": func(c []converter.StorageDriverClaim) []converter.StorageDriverClaim {
			c[0].ClaimData["key"] = strings.Repeat("k", blob.MaxClaim)
			return c
		},
	} {
		b.claims = change
		_, err = s.Put(t.Context(), []byte("x"))
		var claim *storage.ClaimError
		require.ErrorAs(t, err, &claim, name)
		require.Equal(t, "b", claim.Driver)
	}
	_, err = blob.InventoryOf(s)
	require.ErrorContains(t, err, `"external:b" cannot list`)
}

func TestConfigurationIsChecked(t *testing.T) {
	_, err := storage.FromDriver(nil, storage.Config{})
	require.True(t, fault.IsConfig(err))
	_, err = storage.FromDriver(newBucket(""), storage.Config{})
	require.True(t, fault.IsConfig(err))
	_, err = storage.NewDriver(nil, "")
	require.True(t, fault.IsConfig(err))
}

func payload(text string) *commonpb.Payload {
	p, err := converter.GetDefaultDataConverter().ToPayload(text)
	if err != nil {
		panic(err)
	}
	return p
}

func TestOursStoresForTemporal(t *testing.T) {
	m := blob.NewMemory("m")
	d, err := storage.NewDriver(m, "")
	require.NoError(t, err)
	require.Equal(t, storage.DriverType, d.Name())
	var in []*commonpb.Payload
	for i := range 50 {
		in = append(in, payload(fmt.Sprint("payload ", i%40)))
	}
	claims, err := d.Store(converter.StorageDriverStoreContext{Context: t.Context()}, in)
	require.NoError(t, err)
	require.Len(t, claims, len(in))
	out, err := d.Retrieve(converter.StorageDriverRetrieveContext{Context: t.Context()}, claims)
	require.NoError(t, err)
	for i := range in {
		require.True(t, proto.Equal(in[i], out[i]), "payload %d", i)
	}
	require.Equal(t, claims[0], claims[40], "equal payloads are one blob")

	retrieve := func(d *storage.Driver, change func(map[string]string)) error {
		c := maps.Clone(claims[0].ClaimData)
		change(c)
		_, err := d.Retrieve(converter.StorageDriverRetrieveContext{Context: t.Context()}, []converter.StorageDriverClaim{claims[1], {ClaimData: c}})
		return err
	}
	var other *storage.OtherStoreError
	require.ErrorAs(t, retrieve(d, func(c map[string]string) { c["store"] = "n" }), &other)
	require.Equal(t, &storage.OtherStoreError{Driver: d.Name(), Want: "n", Have: "m"}, other)
	missing, invalid, corrupt := new(blob.NotFoundError), new(blob.InvalidRefError), new(blob.CorruptError)
	require.ErrorAs(t, retrieve(d, func(c map[string]string) { c["sha256"] = strings.Repeat("0", 64) }), &missing)
	require.ErrorAs(t, retrieve(d, func(c map[string]string) { c["size"] = "many" }), &invalid)
	require.ErrorAs(t, retrieve(d, func(c map[string]string) { clear(c) }), &invalid)
	require.ErrorAs(t, retrieve(d, func(c map[string]string) { c["size"] = "1" }), &corrupt)

	ref, err := m.Put(t.Context(), []byte("no payload"))
	require.NoError(t, err)
	require.ErrorContains(t, retrieve(d, func(c map[string]string) { c["sha256"], c["size"] = ref.SHA256, "10" }), "is no payload")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.Store(converter.StorageDriverStoreContext{Context: ctx}, in)
	require.ErrorIs(t, err, context.Canceled)
}

// offloaded is an event as the SDK leaves it.
func offloaded(t *testing.T, d *storage.Driver, text string) *historypb.HistoryEvent {
	t.Helper()
	claims, err := d.Store(converter.StorageDriverStoreContext{Context: t.Context()}, []*commonpb.Payload{payload(text)})
	require.NoError(t, err)
	data, err := json.Marshal(map[string]any{"driverName": d.Name(), "claimData": claims[0].ClaimData})
	require.NoError(t, err)
	claim := &commonpb.Payload{Data: data, Metadata: map[string][]byte{"encoding": []byte("json/protobuf"),
		"messageType": []byte("temporal.api.sdk.v1.ExternalStorageReference")}}
	return &historypb.HistoryEvent{EventId: 7, Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
		WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{
			Input:  &commonpb.Payloads{Payloads: []*commonpb.Payload{payload("inline"), claim}},
			Header: &commonpb.Header{Fields: map[string]*commonpb.Payload{"h": claim}}}}}
}

func TestHistoriesAreRestored(t *testing.T) {
	m := blob.NewMemory("m")
	d, err := storage.NewDriver(m, "mine")
	require.NoError(t, err)
	e := offloaded(t, d, "large")
	before := proto.Clone(e)
	name, ok := storage.Offloaded(e)
	require.True(t, ok)
	require.Equal(t, "mine", name)

	got, err := storage.Restore(t.Context(), e, newBucket("other"), d)
	require.NoError(t, err)
	require.True(t, proto.Equal(before, e), "the event of the caller stays")
	a := got.GetWorkflowExecutionSignaledEventAttributes()
	for _, p := range []*commonpb.Payload{a.GetInput().GetPayloads()[1], a.GetHeader().GetFields()["h"]} {
		var text string
		require.NoError(t, converter.GetDefaultDataConverter().FromPayload(p, &text))
		require.Equal(t, "large", text)
	}
	_, ok = storage.Offloaded(got)
	require.False(t, ok)
	same, err := storage.Restore(t.Context(), got)
	require.NoError(t, err)
	require.Same(t, got, same)
	n := 0
	require.NoError(t, storage.Payloads(got, func(*commonpb.Payload) error { n++; return nil }))
	require.Equal(t, 3, n)

	var lost *storage.UnreadableError
	_, err = storage.Restore(t.Context(), e, newBucket("other"))
	require.ErrorAs(t, err, &lost)
	require.Equal(t, &storage.UnreadableError{EventID: 7, Driver: "mine"}, lost)
	require.ErrorContains(t, err, `event 7 has a payload in the external storage "mine", for which there is no driver here`)
	_, err = storage.Restore(t.Context(), e, newBucket("mine"))
	require.ErrorAs(t, err, &lost)
	require.ErrorIs(t, err, errNoSuchKey)
}

func TestClaimsOfEarlierSDKsAreKnown(t *testing.T) {
	p := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/external-storage-reference")},
		Data: []byte(`{"driver_name":"old","driver_claim":{"claim_data":{"key":"k"}}}`)}
	name, claim, ok := storage.Claimed(p)
	require.True(t, ok)
	require.Equal(t, "old", name)
	require.Equal(t, map[string]string{"key": "k"}, claim.ClaimData)
	p.Data = []byte("nonsense")
	name, _, ok = storage.Claimed(p)
	require.True(t, ok, "a claim that cannot be read is no value all the same")
	require.Empty(t, name)
	_, _, ok = storage.Claimed(payload("value"))
	require.False(t, ok)
	_, _, ok = storage.Claimed(nil)
	require.False(t, ok)
}
