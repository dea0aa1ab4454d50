package workerproc

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/protocol"
)

// keyLength is the number of random bytes of a key that is made here.
const keyLength = 32

// GrantKeys reads a key file: one key in base64 on each line, empty lines and those that begin with # aside. The
// first signs, the others are still accepted, which is how keys are rotated. A key's id is derived from it, so that
// workers which share the file agree. Others must not be able to read the file. Errors are *fault.ConfigError.
func GrantKeys(path string) ([]protocol.GrantKey, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.WithHint(fault.Configf("worker.grantKeyFile", "%s does not exist", path),
			fmt.Sprintf("make one, the same for all workers of the queue: (umask 077; openssl rand -base64 %d > %s)", keyLength, path))
	}
	if err != nil {
		return nil, &fault.ConfigError{Key: "worker.grantKeyFile", Msg: "cannot be read", Cause: err}
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, exit.WithHint(fault.Configf("worker.grantKeyFile", "%s is open to other users (mode %04o)", path, info.Mode().Perm()),
			"close it with: chmod 600 "+path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &fault.ConfigError{Key: "worker.grantKeyFile", Msg: "cannot be read", Cause: err}
	}
	var keys []protocol.GrantKey
	for i, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		secret, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return nil, &fault.ConfigError{File: path, Line: i + 1, Key: "worker.grantKeyFile", Msg: "is not base64"}
		}
		sum := sha256.Sum256(secret)
		keys = append(keys, protocol.GrantKey{ID: hex.EncodeToString(sum[:4]), Secret: secret})
	}
	if len(keys) == 0 {
		return nil, fault.Configf("worker.grantKeyFile", "%s holds no key", path)
	}
	return keys, nil
}

// NewGrantKey writes a key file with one random key, readable by its owner only. A file that exists is left alone and
// is an error that wraps fs.ErrExist.
func NewGrantKey(path string) error {
	var secret [keyLength]byte
	rand.Read(secret[:])
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make grant key: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make grant key: %w", err)
	}
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(secret[:]) + "\n")
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("make grant key %q: %w", path, err)
	}
	return nil
}
