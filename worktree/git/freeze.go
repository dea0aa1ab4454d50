package git

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The files of a state folder that hold what a tree is later compared with. They lie beside the tree, because
// everything in it and in its git directory can be written by the agent.
const (
	frozenIndex    = "base.index"
	frozenSettings = "settings"
	frozenHost     = "host"
	// frozenSpare is room for a record on a disk that is full.
	frozenSpare = "spare"
	flushedMark = "flushed"
)

// spareBytes is more than a record has.
const spareBytes = 4096

// freeze keeps the base index, the settings and the state of the shared repository, and completes the record.
func (d *Driver) freeze(id string, r *record, p *plan) error {
	var index bytes.Buffer
	if err := encodeIndex(&index, p.entries, nil); err != nil {
		return err
	}
	set, err := json.Marshal(p.settings)
	if err != nil {
		return err
	}
	shared, err := json.Marshal(d.snapshot(r))
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{frozenIndex: index.Bytes(), frozenSettings: set, frozenHost: shared, frozenSpare: make([]byte, spareBytes)} {
		if err := d.replace(filepath.Join(d.stateDir(id), name), data); err != nil {
			return err
		}
		d.step("frozen-file")
	}
	fi, err := os.Lstat(d.treeDir(id))
	if err != nil {
		return err
	}
	s := statOf(fi)
	r.Dev, r.Ino = s.dev, s.ino
	r.RacyFrom, err = d.clock()
	return err
}

// clock returns the time that the file system of the trees gives to a file that is made now, in nanoseconds. The file
// lies in the trash, where a sweep finds it if this process dies here.
func (d *Driver) clock() (int64, error) {
	f, err := os.CreateTemp(filepath.Join(d.root, "trash"), "clock-")
	if err != nil {
		return 0, err
	}
	d.step("clock-made")
	defer os.Remove(f.Name())
	fi, err := f.Stat()
	return statOf(fi).ctime, errors.Join(err, f.Close())
}

// thaw removes the frozen files.
func (d *Driver) thaw(id string) error {
	for _, dir := range []string{frozenGit, "collect"} {
		if err := deleteAll(filepath.Join(d.stateDir(id), dir)); err != nil {
			return err
		}
	}
	for _, name := range []string{frozenIndex, frozenSettings, frozenHost, frozenList, frozenSpare, flushedMark, weightName} {
		if err := os.Remove(filepath.Join(d.stateDir(id), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		d.step("thawed-file")
	}
	return d.thawAsides(id)
}

// thawAsides removes what writers who were killed left beside the frozen files.
func (d *Driver) thawAsides(id string) error {
	entries, err := os.ReadDir(d.stateDir(id))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, weightName+".") && (!strings.HasSuffix(name, ".tmp") || name == "record.tmp") {
			continue
		}
		if err := os.Remove(filepath.Join(d.stateDir(id), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// flushed reports whether the tree of a record had reached the disk before the machine stopped.
func (d *Driver) flushed(id string, r *record) bool {
	b, err := os.ReadFile(filepath.Join(d.stateDir(id), flushedMark))
	return err == nil && string(b) == r.Nonce
}

// flush makes a new tree durable behind Acquire's back and says so, so that a machine that stops later does not
// cost the agent its tree.
func (d *Driver) flush(id string, r *record) {
	nonce := r.Nonce
	d.janitor.Go(func() {
		d.flushing.Lock()
		defer d.flushing.Unlock()
		if syncTree(d.treeDir(id)) == nil {
			// Without the mark the tree is given up after a restart, which is the safe side.
			mark := filepath.Join(d.stateDir(id), flushedMark)
			_ = replaceSynced(mark, []byte(nonce), func() { d.behind("flushed-aside") })
			d.behind("flushed")
			// A dispose that was faster has looked for the mark already.
			if r, err := d.load(id); err == nil && (r == nil || r.State != stateReady) {
				_ = os.Remove(mark)
			}
		}
	})
}
