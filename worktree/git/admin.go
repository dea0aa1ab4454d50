package git

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/assent-dev/assent/fault"
)

// marker lies in the admin folder of a tree and says whose it is. It names the root by its id and not by its
// path, because two machines may see one repository and have roots of the same path.
type marker struct {
	Host  string `json:"host"`
	ID    string `json:"id"`
	Nonce string `json:"nonce"`
}

const (
	markerName = "assent"
	asideName  = "assent-tmp."
)

// attach makes what the host gets of a tree: its admin folder, or the pin ref of a private one.
func (d *Driver) attach(id string, r *record, h *host) error {
	if r.Resolved.Private {
		return d.makePin(id, r, h)
	}
	if err := d.makeAdmin(id, r); err != nil {
		return fmt.Errorf("make admin folder: %w", err)
	}
	d.step("admin-renamed-in")
	return nil
}

// link makes the tree's .git: a file that names the admin folder, or the git directory of a private tree.
func (d *Driver) link(id string, r *record, h *host) error {
	if r.Resolved.Private {
		return d.makePrivate(r, h)
	}
	return os.WriteFile(filepath.Join(d.treeDir(id), ".git"), []byte("gitdir: "+r.Admin+"\n"), 0o666)
}

// makeAdmin makes worktrees/<id> of the host: filled aside, renamed in, locked from the first moment, with a
// detached HEAD that keeps base and the agent's commits alive. The index follows when the files exist.
func (d *Driver) makeAdmin(id string, r *record) error {
	aside := filepath.Join(r.Common, asideName+id)
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := os.Mkdir(aside, 0o777); err != nil {
		return err
	}
	d.step("admin-aside")
	mark, err := json.Marshal(marker{d.hostID, id, r.Nonce})
	if err != nil {
		return err
	}
	files := []struct{ name, text string }{
		{markerName, string(mark) + "\n"},
		{"locked", "in use by an agent (" + id + ")\n"},
		{"commondir", "../..\n"},
		{"gitdir", filepath.Join(d.treeDir(id), ".git") + "\n"},
		{"HEAD", r.Resolved.Commit + "\n"},
		// Keeps the base from being pruned when the agent moves HEAD elsewhere and the host drops the branch.
		{"logs/HEAD", r.firstLog()},
	}
	if err := os.Mkdir(filepath.Join(aside, "logs"), 0o777); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(aside, f.name), []byte(f.text), 0o666); err != nil {
			return err
		}
	}
	d.step("admin-filled")
	// Another tree's dispose may remove the empty folder between the two calls.
	for range 100 {
		if err = os.Mkdir(filepath.Dir(r.Admin), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		d.step("worktrees-made")
		if err = os.Rename(aside, r.Admin); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// firstLog is the first line of a tree's HEAD log.
func (r *record) firstLog() string {
	none := strings.Repeat("0", len(r.Resolved.Commit))
	return fmt.Sprintf("%s %s assent <assent@localhost> %d +0000\tacquire\n", none, r.Resolved.Commit, r.Created.Unix())
}

// readMarker returns the marker of an admin folder, nil if there is none.
func readMarker(admin string) *marker {
	b, err := readFile(filepath.Join(admin, markerName))
	if err != nil {
		return nil
	}
	m := new(marker)
	if json.Unmarshal(b, m) != nil {
		return nil
	}
	return m
}

// ownsAdmin reports whether the folder that the record names is the one that was made for it: by the marker, or,
// since an agent can remove that, by the tree that it points to.
func (d *Driver) ownsAdmin(id string, r *record) bool {
	if m := readMarker(r.Admin); m != nil {
		return *m == marker{d.hostID, id, r.Nonce}
	}
	to, err := readLink(filepath.Join(r.Admin, "gitdir"), "")
	return err == nil && to == filepath.Join(d.treeDir(id), ".git")
}

// removeAdmin removes the admin folder of a record if it is there and ours, what is left of one that was being
// made, and the folder above if nothing else is in it. No other worktree is looked at. Of a private tree, whose git
// directory goes with its files, it removes the pin ref.
func (d *Driver) removeAdmin(id string, r *record) error {
	if r.Resolved.Private {
		return d.removePin(id, r.Common)
	}
	aside := filepath.Join(r.Common, asideName+id)
	if d.ownsAdmin(id, r) {
		// Aside first, so that nobody sees a half of it. What lies there is left over from a kill.
		if err := os.RemoveAll(aside); err != nil {
			return err
		}
		if err := os.Rename(r.Admin, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		d.step("admin-renamed-out")
	}
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	removeEmpty(filepath.Dir(r.Admin))
	return nil
}

// removeEmpty removes a folder if it is one and nothing is in it, as git does with those that it shares.
func removeEmpty(dir string) { _ = syscall.Rmdir(dir) }

// refuseStranger refuses to make what exists already and was not made for this identity.
func refuseStranger(id string, paths ...string) error {
	for _, p := range paths {
		if _, err := os.Lstat(p); err == nil {
			return fault.Configf("worktree "+id, "%q exists and is not ours", p)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("acquire %q: %w", id, err)
		}
	}
	return nil
}
