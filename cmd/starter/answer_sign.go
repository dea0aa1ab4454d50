package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/exit"
)

// signer signs answers as a principal; the zero signer leaves them as they are.
type signer struct {
	name string
	key  ed25519.PrivateKey
	// unseen also signs what nobody here could read.
	unseen bool
}

// signer reads the key that the flags name.
func (f *answerFlags) signer(by string) (signer, error) {
	if f.sign == "" {
		return signer{}, nil
	}
	if by == "" {
		return signer{}, exit.Usagef("a name in engine.keys: --by alice", "--sign needs --by")
	}
	key, err := readKey(f.sign)
	return signer{name: by, key: key, unseen: f.unseen}, err
}

// mostKey bounds a key file, in bytes.
const mostKey = 64 << 10

// readKey reads an ed25519 private key as `openssl genpkey -algorithm ed25519` and `starter keygen` write it.
func readKey(path string) (ed25519.PrivateKey, error) {
	refuse := func(hint, format string, args ...any) (ed25519.PrivateKey, error) {
		return nil, exit.Usagef(hint, "key file %s: %w", path, fmt.Errorf(format, args...))
	}
	const make = "make one with: starter keygen FILE"
	// A named pipe would be waited for.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return refuse(make, "it is no regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return refuse(make, "%w", err)
	}
	defer func() { _ = file.Close() }()
	// Of the file that is open: another one may have its name by now.
	info, err := file.Stat()
	switch {
	case err != nil:
		return refuse("", "%w", err)
	case !info.Mode().IsRegular():
		return refuse(make, "it is no regular file")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return refuse("chmod 600 "+shellQuote(path), "others than its owner can use it (%04o)", info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(file, mostKey))
	if err != nil {
		return refuse("", "%w", err)
	}
	block, _ := pem.Decode(text)
	switch {
	case block == nil:
		return refuse(make, "it is not PEM")
	case block.Type == "ENCRYPTED PRIVATE KEY":
		return refuse("take the passphrase off: openssl pkey -in "+shellQuote(path)+" -out FILE", "it is encrypted")
	case block.Type != pemPrivate:
		return refuse(make, "it holds a %s, and not a %s", block.Type, pemPrivate)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return refuse(make, "%w", err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return refuse(make, "it is a %T, and not an ed25519 key", parsed)
	}
	return key, nil
}

// pemPrivate is the PEM type of a private key in PKCS#8.
const pemPrivate = "PRIVATE KEY"

// sign signs an answer to a question, if it is the question that was shown.
func (s signer) sign(q approval.Approval, from source, r approval.Resolution) (approval.Resolution, error) {
	if s.key == nil {
		return r, nil
	}
	if q.Seal.RunID == "" || q.Seal.ContentKey == "" || q.Seal.InputDigest == "" || q.Seal.PolicyDigest == "" {
		hint := "start a worker on its queue and try again"
		if from == fromQuery {
			hint = ""
		}
		return r, exit.Failf(hint, "%s cannot be signed: what was asked is not known in full from the %s", q.Key, from)
	}
	if err := seen(q); err != nil && !s.unseen {
		return r, err
	}
	signed, err := approval.SignUnseen(q, r, s.name, s.key)
	if err != nil {
		return r, exit.Failf("", "%s cannot be signed: %w", q.Key, err)
	}
	return signed, nil
}

// seen says why what is shown is not known to be what is signed.
func seen(q approval.Approval) error {
	if err := readable(q); err != nil {
		return exit.Failf("read them elsewhere, and sign with --unseen", "%s is not signed: %w", q.Key, err)
	}
	var unsealed *approval.UnsealedError
	if errors.As(q.Sealed(), &unsealed) {
		return exit.Failf("do not answer it before you know why", "%s is not signed: the arguments that are shown have the digest %s, and the question speaks of %s",
			q.Key, unsealed.Shown, unsealed.Sealed)
	}
	return nil
}
