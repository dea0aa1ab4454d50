package git

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// stage holds copies of the files that differ from the base, at their paths below files/. Attribute files, and links and
// folders of their name, lie apart, numbered, so that git does not take them for rules.
type stage struct {
	dir   string
	root  *os.Root
	paths []string
	// attributes are those that lie apart; of a link, what it says.
	attributes []entry
}

// newStage makes the folder anew.
func newStage(dir string) (*stage, error) {
	if err := deleteAll(dir); err != nil {
		return nil, err
	}
	for _, sub := range []string{"", "files", "attributes", "objects", "objects/info"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(filepath.Join(dir, "files"))
	return &stage{dir: dir, root: root}, err
}

func (st *stage) close() { st.root.Close() }

// borrow lets git read the objects of the repository; it writes its own into the stage.
func (st *stage) borrow(objects string) error {
	return os.WriteFile(filepath.Join(st.dir, "objects", "info", "alternates"), []byte(objects+"\n"), 0o600)
}

func (st *stage) attributeFile(i int) string {
	return filepath.Join(st.dir, "attributes", strconv.Itoa(i))
}

// take copies one file or link of the tree. A file that changes under the reader is errChanging.
func (st *stage) take(root *os.Root, name string, e *entry) error {
	if slices.Contains(strings.Split(e.path, "/"), ".gitattributes") {
		return st.takeApart(root, name, e)
	}
	if err := st.root.MkdirAll(path.Dir(e.path), 0o700); err != nil {
		return err
	}
	st.paths = append(st.paths, e.path)
	if fi, err := root.Lstat(name); err != nil {
		return changing(err)
	} else if fi.Mode()&fs.ModeSymlink != 0 {
		to, err := root.Readlink(name)
		if err != nil {
			return errChanging
		}
		return st.root.Symlink(to, e.path)
	}
	mode := os.FileMode(0o600)
	if e.mode == modeExec {
		mode = 0o700
	}
	return st.copy(root, name, func() (*os.File, error) {
		return st.root.OpenFile(e.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	})
}

// takeApart is take for what git would take for rules, or for the lack of them: it prefers a folder of that name to what its index
// has, and reads what a link says.
func (st *stage) takeApart(root *os.Root, name string, e *entry) error {
	file := st.attributeFile(len(st.attributes))
	st.attributes = append(st.attributes, *e)
	if fi, err := root.Lstat(name); err != nil {
		return changing(err)
	} else if fi.Mode()&fs.ModeSymlink != 0 {
		to, err := root.Readlink(name)
		if err != nil {
			return errChanging
		}
		return os.WriteFile(file, []byte(to), 0o600)
	}
	return st.copy(root, name, func() (*os.File, error) {
		return os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	})
}

// copy copies a file, a few times if it changes meanwhile.
func (st *stage) copy(root *os.Root, name string, open func() (*os.File, error)) error {
	var err error
	for range 4 {
		err = withFile(root, name, func(f *os.File, size int64) error {
			to, err := open()
			if err != nil {
				return err
			}
			n, err := io.Copy(to, io.LimitReader(f, size+1))
			if err == nil && n != size {
				err = errChanging
			}
			return errors.Join(err, to.Close())
		})
		if !errors.Is(err, errChanging) {
			break
		}
	}
	return err
}
