package demo

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"github.com/assent-dev/assent/internal/exit"
)

// The files of a demo's folder.
const (
	stateFile    = "demo.json"
	lockFile     = "lock"
	configFile   = "assent.yaml"
	scriptFile   = "script.yaml"
	databaseFile = "temporal.db"
	serverLog    = "server.log"
	workerLog    = "worker.log"
	keyFile      = "grant.key"
	patchFile    = "fix.patch"
	blobsDir     = "blobs"
	treesDir     = "work"
	sampleDir    = sampleName
)

// Demo is one demonstration, running or not.
type Demo struct {
	// ID is the agent's workflow id and the name of the folder.
	ID string `json:"id"`
	// Address is the server of others that was asked for; empty means one of the demo's own.
	Address   string `json:"address,omitempty"`
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
	// Port and UIPort are those the demo's own server had last, so that what was printed holds when it is back.
	Port   int `json:"port,omitempty"`
	UIPort int `json:"uiPort,omitempty"`
	// Repo is the repository that the agent works on, the sample's if Sample is set.
	Repo   string `json:"repo"`
	Ref    string `json:"ref,omitempty"`
	Sample bool   `json:"sample"`
	Task   string `json:"task"`
	// Model is the real model that is asked; its zero value is a script.
	Model Asked `json:"model,omitzero"`
	// Keep leaves everything in place when the agent has ended.
	Keep  bool      `json:"keep,omitempty"`
	Began time.Time `json:"began"`

	dir string
}

// Dir is the demo's folder.
func (d *Demo) Dir() string { return d.dir }

// PatchFile is where the patch of the agent is left.
func (d *Demo) PatchFile() string { return filepath.Join(d.dir, patchFile) }

func (d *Demo) path(name string) string { return filepath.Join(d.dir, name) }

var validID = regexp.MustCompile(`\Ademo-[0-9a-f]{8}\z`)

// newID returns an id that no other demo has.
func newID() string {
	var b [4]byte
	rand.Read(b[:])
	return "demo-" + hex.EncodeToString(b[:])
}

// ErrNone says that there is no demo of an id in this user's folder of demos.
var ErrNone = errors.New("no such demo")

// Open returns the demo of an id, or an error that wraps ErrNone. Any text may be asked for.
func Open(id string) (*Demo, error) {
	if !validID.MatchString(id) {
		return nil, fmt.Errorf("open demo %q: %w", id, ErrNone)
	}
	home, err := Home()
	if err != nil {
		return nil, fmt.Errorf("open demo %q: %w: %w", id, ErrNone, err)
	}
	d := &Demo{dir: filepath.Join(home, id)}
	b, err := os.ReadFile(d.path(stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open demo %q: %w", id, ErrNone)
	}
	if err == nil {
		err = json.Unmarshal(b, d)
	}
	if err != nil {
		return nil, fmt.Errorf("open demo %q: %w", id, err)
	}
	return d, nil
}

// Owns reports whether an address is that of a demo's own server: what the user has set for other servers does not hold
// there.
func Owns(address string) bool {
	home, err := Home()
	if err != nil || address == "" {
		return false
	}
	entries, err := os.ReadDir(home)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if d, err := Open(e.Name()); err == nil && d.Address == "" && d.Port != 0 && d.OwnAddress() == address {
			return true
		}
	}
	return false
}

// save writes what is known of the demo; a crash leaves the old text or the new one.
func (d *Demo) save() error {
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("save demo %q: %w", d.ID, err)
	}
	next := d.path(stateFile + ".new")
	if err := os.WriteFile(next, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("save demo %q: %w", d.ID, err)
	}
	if err := os.Rename(next, d.path(stateFile)); err != nil {
		return fmt.Errorf("save demo %q: %w", d.ID, err)
	}
	return nil
}

// Remove deletes the demo's folder.
func (d *Demo) Remove() error {
	if err := removeAll(d.dir); err != nil {
		return fmt.Errorf("remove demo %q: %w", d.ID, err)
	}
	return nil
}

// Reduce deletes everything but the patch and, if there is one, the sample that it belongs to.
func (d *Demo) Reduce() error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return fmt.Errorf("clear demo %q: %w", d.ID, err)
	}
	for _, e := range entries {
		if name := e.Name(); name != patchFile && !(d.Sample && name == sampleDir) {
			if err := removeAll(d.path(name)); err != nil {
				return fmt.Errorf("clear demo %q: %w", d.ID, err)
			}
		}
	}
	return nil
}

// removeAll deletes folders too that their owner made unreadable or unwritable, as tools may do in a tree.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(p string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(p, 0o700) // what cannot be opened is reported by the removal
		}
		return nil
	})
	return os.RemoveAll(path)
}

// Home is the folder of this user's demos. It is not the cache: an agent that waits cannot go on without it.
func Home() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "assent", "demos"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", exit.Failf("set HOME or XDG_STATE_HOME to a folder that can be written", "no folder for demos: %w", err)
	}
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(home, "Library", "Application Support", "assent", "demos"), nil
	case "windows":
		return filepath.Join(home, "AppData", "Local", "assent", "demos"), nil
	}
	return filepath.Join(home, ".local", "state", "assent", "demos"), nil
}
