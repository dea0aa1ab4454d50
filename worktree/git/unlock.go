package git

import (
	"io/fs"
	"os"
	"strings"
)

// unlocked is a path that was given rights for the time of a collect, with the mode that it had.
type unlocked struct {
	path string
	mode fs.FileMode
}

// unlock gives the owner the right to read a file or to enter a folder that an agent has closed. Where that is not
// ours to give, reading it fails later.
func (s *scan) unlock(root *os.Root, name, path string, fi fs.FileInfo) {
	need := fs.FileMode(0o400)
	if fi.IsDir() {
		need = 0o500
	}
	mode := fi.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	if mode&need != need && root.Chmod(name, mode|need) == nil {
		s.unlocked = append(s.unlocked, unlocked{path, mode})
	}
}

// relock takes back what unlock gave, the deepest first.
func (s *scan) relock(root *os.Root) {
	for i := len(s.unlocked) - 1; i >= 0; i-- {
		// What is not there any more needs no mode.
		_ = root.Chmod(s.unlocked[i].path, s.unlocked[i].mode)
	}
	s.unlocked = nil
}

// keep says that a path cannot be read, and keeps what the base has there.
func (s *scan) keep(path string) {
	kept := 0
	for p, e := range s.base {
		if p == path || strings.HasPrefix(p, path+"/") {
			s.found = append(s.found, *e)
			kept++
		}
	}
	if kept > 0 {
		s.warn("%q cannot be read: %d paths of the base are taken as unchanged", path, kept)
		return
	}
	s.warn("%q cannot be read: it is not in the patch", path)
}
