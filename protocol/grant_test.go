package protocol_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

var (
	k1 = protocol.GrantKey{ID: "k1", Secret: []byte("0123456789abcdef")}
	k2 = protocol.GrantKey{ID: "k2", Secret: []byte("fedcba9876543210")}

	grant = protocol.Grant{CallID: "t1.1", RunID: "r", ContractHash: "c", InputDigest: "i", PolicyDigest: "p", Expires: 100}
	place = protocol.Place{Namespace: "n", WorkflowID: "w", ActivityType: "tool.run", ActivityID: "t1.1"}
	early = time.Unix(100, 999)
)

func ring(t *testing.T, keys ...protocol.GrantKey) protocol.Keyring {
	t.Helper()
	r, err := protocol.NewKeyring(keys...)
	require.NoError(t, err)
	return r
}

func TestNewKeyringRefuses(t *testing.T) {
	for want, keys := range map[string][]protocol.GrantKey{
		"grantKeys: a key has no id":                                        {{Secret: k1.Secret}},
		`grantKeys: the id "k1" is used twice`:                              {k1, k1},
		`grantKeys: the secret of "k" has 15 bytes, at least 16 are needed`: {{ID: "k", Secret: make([]byte, 15)}},
	} {
		_, err := protocol.NewKeyring(keys...)
		require.EqualError(t, err, want)
		require.True(t, fault.IsConfig(err))
	}
}

// The format of the MAC is published: other languages check it.
func TestSignedGrantIsAsPublished(t *testing.T) {
	g := ring(t, k1).Sign(grant, place)
	require.Equal(t, protocol.GrantVersion, g.Version)
	require.Equal(t, "k1", g.KeyID)
	require.Equal(t, "gvkiZ048_EmTWMU-tnmCIQ", g.MAC)
	require.NoError(t, ring(t, k1).Verify(g, place, "i", early))
	require.Equal(t, g, ring(t, k1).Sign(g, place), "signing again gives the same grant")
}

// Whatever is changed after signing, in the grant or in where it is used, is refused.
func TestEveryFieldIsSigned(t *testing.T) {
	r := ring(t, k1)
	signed := r.Sign(grant, place)
	for field, flip := range fields(&protocol.Grant{}) {
		g := signed
		flip(reflect.ValueOf(&g).Elem())
		require.Error(t, r.Verify(g, place, "", early), "grant.%s", field)
	}
	for field, flip := range fields(&protocol.Place{}) {
		p := place
		flip(reflect.ValueOf(&p).Elem())
		require.EqualError(t, r.Verify(signed, p, "i", early), "grant refused: its signature does not match", "place.%s", field)
	}
}

// fields returns one change for each field of a struct, by name.
func fields(ptr any) map[string]func(reflect.Value) {
	out := map[string]func(reflect.Value){}
	typ := reflect.TypeOf(ptr).Elem()
	for i := range typ.NumField() {
		out[typ.Field(i).Name] = func(v reflect.Value) {
			if f := v.Field(i); f.Kind() == reflect.String {
				f.SetString(f.String() + "x")
			} else {
				f.SetInt(f.Int() + 1)
			}
		}
	}
	return out
}

// What a signed grant leaves out is what its worker knows; with anything else in its place it is refused.
func TestSlimGrant(t *testing.T) {
	r := ring(t, k1)
	whole := tool.Call{ID: "t1.1", Agent: &tool.Agent{RunID: "r"}, ContractHash: "c", Source: "s"}
	known := protocol.Known(whole, "i")
	grant := grant
	grant.Source, grant.Terms = "s", known.Terms
	signed := r.Sign(grant, place)
	slim := signed.Slim(known)
	header, err := json.Marshal(slim)
	require.NoError(t, err)
	require.Equal(t, `{"v":1,"policy":"p","exp":100,"kid":"k1","mac":"`+signed.MAC+`"}`, string(header))
	require.Equal(t, signed, slim.Full(known))
	require.Error(t, r.Verify(slim, place, "i", early))
	with := func(change func(*tool.Call), digest string) protocol.Grant {
		c := whole
		c.Agent = &tool.Agent{RunID: "r"}
		change(&c)
		return protocol.Known(c, digest)
	}
	for what, other := range map[string]protocol.Grant{
		"call": with(func(c *tool.Call) { c.ID = "t1.2" }, "i"), "run": with(func(c *tool.Call) { c.Agent.RunID = "r2" }, "i"),
		"contract": with(func(c *tool.Call) { c.ContractHash = "c2" }, "i"), "input": with(func(*tool.Call) {}, "i2"),
		"source": with(func(c *tool.Call) { c.Source = "s2" }, "i"),
		"where":  with(func(c *tool.Call) { c.Dir = "/" }, "i"),
	} {
		require.EqualError(t, r.Verify(slim.Full(other), place, "", early), "grant refused: its signature does not match", what)
		require.NotEqual(t, slim, signed.Slim(other), "what the worker does not know stays: %s", what)
		require.Equal(t, signed, signed.Slim(other).Full(other), what)
	}
	unsigned := protocol.Keyring{}.Sign(grant, place)
	require.Empty(t, unsigned.Terms, "whoever changes what a call says can make another one")
	require.Equal(t, unsigned, unsigned.Slim(known), "it is compared, and nothing else")
	unsigned.InputDigest = ""
	require.Equal(t, unsigned, unsigned.Full(known))
}

func TestVerify(t *testing.T) {
	empty, one, both, rotated := protocol.Keyring{}, ring(t, k1), ring(t, k1, k2), ring(t, k2, k1)
	unsigned := empty.Sign(grant, place)
	forged := k1
	forged.Secret = []byte("not the shared secret")
	for name, tc := range map[string]struct {
		by     protocol.Keyring
		g      protocol.Grant
		digest string
		now    time.Time
		want   string
	}{
		"signed":                 {one, one.Sign(grant, place), "i", early, ""},
		"no digest to compare":   {one, one.Sign(grant, place), "", early, ""},
		"second key":             {rotated, one.Sign(grant, place), "i", early, ""},
		"after rotation":         {both, rotated.Sign(grant, place), "i", early, ""},
		"before rotation":        {one, rotated.Sign(grant, place), "i", early, `its key "k2" is not known here`},
		"unsigned with a key":    {one, unsigned, "i", early, "it is not signed"},
		"forged":                 {one, ring(t, forged).Sign(grant, place), "i", early, "its signature does not match"},
		"unsigned without a key": {empty, unsigned, "i", early, ""},
		"signed without a key":   {empty, one.Sign(grant, place), "i", early, ""},
		"other arguments":        {empty, unsigned, "j", early, "it is for other arguments"},
		"expired":                {empty, unsigned, "i", time.Unix(101, 0), "it has expired"},
		"no version":             {empty, grant, "i", early, "version 0 is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.by.Verify(tc.g, place, tc.digest, tc.now)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, "grant refused: "+tc.want)
			var refused *protocol.GrantError
			require.ErrorAs(t, err, &refused)
		})
	}
	forever := grant
	forever.Expires = 0
	require.NoError(t, one.Verify(one.Sign(forever, place), place, "i", time.Unix(1<<40, 0)))
	require.True(t, empty.Empty())
	require.False(t, one.Empty())
}

// An empty ring leaves no trace of an older signature.
func TestSigningWithoutKeysUnsigns(t *testing.T) {
	g := protocol.Keyring{}.Sign(ring(t, k1).Sign(grant, place), place)
	require.Empty(t, g.KeyID)
	require.Empty(t, g.MAC)
}

// What a worker is told of a call beside its arguments is under the signature, whatever a later version adds to it.
func TestTerms(t *testing.T) {
	call := tool.Call{Agent: &tool.Agent{RunID: "r"}, Lease: json.RawMessage(`{"id":"t"}`), Isolation: "none"}
	terms := protocol.Terms(call)
	require.Equal(t, canonjson.SHA256([]byte(`{"agent":{"runId":"r","type":""},"lease":{"id":"t"}}`)), terms, "docs/security.md says how it is made")
	for field, change := range map[string]func(*tool.Call){
		"agent": func(c *tool.Call) { c.Agent = &tool.Agent{RunID: "r", Label: "x"} }, "approved": func(c *tool.Call) { c.Approved = &tool.Approved{Key: "k"} },
		"lease": func(c *tool.Call) { c.Lease = json.RawMessage(`{"id":"u"}`) }, "guards": func(c *tool.Call) { c.Guards = []string{"g"} },
		"tighten": func(c *tool.Call) { c.Tighten = json.RawMessage(`{}`) }, "parents": func(c *tool.Call) { c.Parents = json.RawMessage(`[]`) },
		"needsApproval": func(c *tool.Call) { c.NeedsApproval = true }, "modified": func(c *tool.Call) { c.Modified = true },
	} {
		c := call
		change(&c)
		require.NotEqual(t, terms, protocol.Terms(c), field)
	}
	elsewhere := map[string]bool{"ID": true, "Name": true, "Input": true, "InputRef": true, "ContractHash": true, "IdempotencyKey": true, "Source": true}
	for i := range reflect.TypeFor[tool.Call]().NumField() {
		c := call
		if f := reflect.ValueOf(&c).Elem().Field(i); f.Kind() == reflect.String {
			f.SetString("x")
			name := reflect.TypeFor[tool.Call]().Field(i).Name
			require.Equal(t, elsewhere[name], terms == protocol.Terms(c), name)
		}
	}
	for _, typ := range []string{protocol.ActivityCallTool, "tool.run"} {
		c := call
		c.ID, c.Name, c.ContractHash, c.IdempotencyKey = "t1.1", "run", "0123456789abcdef0123456789abcdef", "k"
		b, err := json.Marshal(protocol.Sent(c, typ))
		require.NoError(t, err)
		var got tool.Call
		require.NoError(t, json.Unmarshal(b, &got))
		require.Equal(t, terms, protocol.Terms(protocol.Received(got, typ, "t1.1~2")))
	}
	call.Lease = json.RawMessage("{ \"id\" :\"t\" }")
	require.Equal(t, terms, protocol.Terms(call), "however it is written")
	call.Lease = json.RawMessage(`"\ud800"`)
	require.Len(t, protocol.Terms(call), 64, "what has no canonical form is compared as it is written")
	call.Lease = json.RawMessage(`{`)
	require.Equal(t, "unreadable", protocol.Terms(call))
}
