package approval_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
)

var (
	alice = ed25519.NewKeyFromSeed([]byte(strings.Repeat("a", ed25519.SeedSize)))
	bob   = ed25519.NewKeyFromSeed([]byte(strings.Repeat("b", ed25519.SeedSize)))
	keys  = map[string]ed25519.PublicKey{
		"alice": alice.Public().(ed25519.PublicKey), "bob": bob.Public().(ed25519.PublicKey), "short": {1},
	}
	question = approval.Approval{Key: "pay-3f9a1c07", Tool: "pay", CallID: "t1.1", Input: json.RawMessage(`{"amount": 5}`),
		Seal: approval.Seal{RunID: "run", ContentKey: "content", InputDigest: "7e84cbf0f7a7c92c037058665d66152f8eb8580ab2534e52c877bccceb9cc7bf", ContractHash: "contract", PolicyDigest: "policy"}}
)

func signed(t *testing.T, r approval.Resolution) approval.Resolution {
	t.Helper()
	r, err := approval.Sign(question, r, "alice", alice)
	require.NoError(t, err)
	return r
}

// The format is published: other languages sign too.
func TestStatementIsAsPublished(t *testing.T) {
	at := time.Date(2026, 12, 1, 9, 30, 0, 0, time.FixedZone("", 3600))
	r := approval.Resolution{Decision: approval.Allow, Reason: "read it", Input: json.RawMessage(`{"b":1, "a":2}`), Always: true, ExpiresAt: &at}
	s, err := approval.Statement(question, r)
	require.NoError(t, err)
	require.Equal(t, `{"always":true,"callId":"t1.1","decision":"allow","expiresAt":"2026-12-01T08:30:00Z",`+
		`"input":"d3626ac30a87e6f7a6428233b3c68299976865fa5508e4267c5415c76af7a772","key":"pay-3f9a1c07","kind":"assent.answer/1","reason":"read it",`+
		`"seal":{"contentKey":"content","contractHash":"contract","inputDigest":"7e84cbf0f7a7c92c037058665d66152f8eb8580ab2534e52c877bccceb9cc7bf","policyDigest":"policy","runId":"run"},"tool":"pay"}`, string(s))

	digest, err := approval.Digest(question, r)
	require.NoError(t, err)
	got := signed(t, r)
	require.Equal(t, "alice", got.By)
	require.Equal(t, question.Key, got.Key)
	sig, err := base64.StdEncoding.DecodeString(got.Signature.Sig)
	require.NoError(t, err)
	require.True(t, ed25519.Verify(keys["alice"], digest, sig))

	who, err := approval.VerifySignature(question, got, keys)
	require.NoError(t, err)
	require.Equal(t, "alice", who)

	// As it travels.
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	parsed, err := approval.Parse(raw)
	require.NoError(t, err)
	_, err = approval.VerifySignature(question, parsed, keys)
	require.NoError(t, err)
	got.By = ""
	who, err = approval.VerifySignature(question, got, keys)
	require.NoError(t, err)
	require.Equal(t, "alice", who, "the key names its principal")
}

func TestSignatureRefused(t *testing.T) {
	allow := approval.Resolution{Decision: approval.Allow}
	late := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		change func(*approval.Approval, *approval.Resolution)
		want   string
	}{
		"none":             {func(_ *approval.Approval, r *approval.Resolution) { r.Signature = nil }, "there is none"},
		"unknown key":      {func(_ *approval.Approval, r *approval.Resolution) { r.Signature.KeyID = "eve" }, `the key "eve" is not known here`},
		"key of no use":    {func(_ *approval.Approval, r *approval.Resolution) { r.Signature.KeyID = "short" }, `the key "short" is not known here`},
		"other name":       {func(_ *approval.Approval, r *approval.Resolution) { r.By = "bob" }, `the answer is by "bob", and the key is that of "alice"`},
		"other key":        {func(_ *approval.Approval, r *approval.Resolution) { r.Signature.KeyID, r.By = "bob", "bob" }, "it is not over this answer to this question"},
		"no base64":        {func(_ *approval.Approval, r *approval.Resolution) { r.Signature.Sig = "…" }, "it is not 64 bytes in base64"},
		"too short":        {func(_ *approval.Approval, r *approval.Resolution) { r.Signature.Sig = "AAAA" }, "it is not 64 bytes in base64"},
		"other decision":   {func(_ *approval.Approval, r *approval.Resolution) { r.Decision = approval.Revoke }, "it is not over this answer to this question"},
		"other reason":     {func(_ *approval.Approval, r *approval.Resolution) { r.Reason = "x" }, "it is not over this answer to this question"},
		"edited since":     {func(_ *approval.Approval, r *approval.Resolution) { r.Input = json.RawMessage(`{}`) }, "it is not over this answer to this question"},
		"no JSON":          {func(_ *approval.Approval, r *approval.Resolution) { r.Input = json.RawMessage(`{`) }, "the answer cannot be signed"},
		"always":           {func(_ *approval.Approval, r *approval.Resolution) { r.Always = true }, "it is not over this answer to this question"},
		"longer":           {func(_ *approval.Approval, r *approval.Resolution) { r.ExpiresAt = &late }, "it is not over this answer to this question"},
		"another run":      {func(q *approval.Approval, _ *approval.Resolution) { q.Seal.RunID = "x" }, "it is not over this answer to this question"},
		"other arguments":  {func(q *approval.Approval, _ *approval.Resolution) { q.Seal.InputDigest = "x" }, "it is not over this answer to this question"},
		"another question": {func(q *approval.Approval, _ *approval.Resolution) { q.Key = "x" }, "it is not over this answer to this question"},
	} {
		t.Run(name, func(t *testing.T) {
			q, r := question, signed(t, allow)
			tc.change(&q, &r)
			_, err := approval.VerifySignature(q, r, keys)
			var bad *approval.SignatureError
			require.ErrorAs(t, err, &bad)
			require.EqualError(t, err, "signature refused: "+tc.want)
		})
	}
	_, err := approval.Sign(question, approval.Resolution{Input: json.RawMessage(`{"a":1,"a":2}`)}, "alice", alice)
	require.ErrorContains(t, err, `statement about "pay-3f9a1c07"`)
	other := question
	other.Input = json.RawMessage(`{"amount":50}`)
	_, err = approval.Sign(other, approval.Resolution{}, "alice", alice)
	require.ErrorAs(t, err, new(*approval.UnsealedError))
	require.EqualError(t, err, `approval "pay-3f9a1c07": the arguments that it shows have the digest `+
		"0b8895843d28a813c0a0552270feec179fa3d49d5ffca9ed450c81983c60da61, and it is sealed for 7e84cbf0f7a7c92c037058665d66152f8eb8580ab2534e52c877bccceb9cc7bf")
	other.Input = json.RawMessage(`{"$blob":`)
	require.ErrorContains(t, other.Sealed(), "the digest none,")
	_, err = approval.SignUnseen(other, approval.Resolution{}, "alice", alice)
	require.NoError(t, err)
	bad := question
	bad.Tool = "\xff"
	_, err = approval.Digest(bad, allow)
	require.NoError(t, err, "what is no text is written as a replacement")
}
