package toolbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/assent-dev/assent/tool"
)

// maxEdit bounds the size of a file that edit_file changes.
const maxEdit = 16 << 20

type writeArgs struct {
	Path    string `json:"path" jsonschema_description:"file relative to the working directory; missing directories are made"`
	Content string `json:"content" jsonschema_description:"the whole new content"`
}

// Written is the result of write_file.
type Written struct {
	Path string `json:"path"`
	// Bytes is the size of the file.
	Bytes int `json:"bytes"`
	// Created is false when a file was overwritten.
	Created bool `json:"created"`
}

func writeFile(_ context.Context, call *tool.Context, in writeArgs) (Written, error) {
	name, err := cleanPath(in.Path, false)
	if err != nil {
		return Written{}, err
	}
	root, err := openDir(call)
	if err != nil {
		return Written{}, err
	}
	defer root.Close()
	real, err := writable(root, name)
	if err != nil {
		return Written{}, err
	}
	created, err := replace(root, real, []byte(in.Content))
	if err != nil {
		return Written{}, fmt.Errorf("write %q: %w", name, plain(err))
	}
	return Written{Path: name, Bytes: len(in.Content), Created: created}, nil
}

// replace gives the file its new content in one step: a reader sees the old or the new bytes, and a crash leaves one
// of them. The mode of an existing file is kept.
func replace(root *os.Root, name string, data []byte) (created bool, err error) {
	mode := fs.FileMode(0o644)
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		created = true
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	case info.IsDir():
		return false, errors.New("is a directory")
	case !info.Mode().IsRegular():
		return false, errSpecial
	default:
		mode = info.Mode().Perm()
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails, see crypto/rand
	temp := path.Join(path.Dir(name), ".assent-"+hex.EncodeToString(random[:]))
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return false, err
	}
	_, err = f.Write(data)
	if err == nil && !created {
		// What the file mode mask took away when the file was made.
		err = f.Chmod(mode)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		_ = root.Remove(temp)
	}
	return created, err
}

type editArgs struct {
	Path string `json:"path" jsonschema_description:"file relative to the working directory"`
	Old  string `json:"old" jsonschema:"minLength=1" jsonschema_description:"the exact text to replace; it must occur once unless all is true"`
	New  string `json:"new" jsonschema_description:"the text to put in its place"`
	All  bool   `json:"all,omitempty" jsonschema_description:"replace every occurrence"`
}

// Edited is the result of edit_file.
type Edited struct {
	Path string `json:"path"`
	// Replaced counts the occurrences that were replaced.
	Replaced int `json:"replaced"`
	// Bytes is the size of the file afterwards.
	Bytes int `json:"bytes"`
}

func editFile(_ context.Context, call *tool.Context, in editArgs) (Edited, error) {
	name, err := cleanPath(in.Path, false)
	if err != nil {
		return Edited{}, err
	}
	if in.Old == in.New {
		return Edited{}, tool.ModelRetry{Message: "old and new are the same text"}
	}
	root, err := openDir(call)
	if err != nil {
		return Edited{}, err
	}
	defer root.Close()
	real, err := writable(root, name)
	if err != nil {
		return Edited{}, err
	}
	f, info, err := openRegular(root, real)
	if err != nil {
		return Edited{}, err
	}
	defer f.Close()
	if info.Size() > maxEdit {
		return Edited{}, fmt.Errorf("edit %q: has %d bytes, at most %d are edited", name, info.Size(), maxEdit)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxEdit+1))
	if err != nil {
		return Edited{}, fmt.Errorf("read %q: %w", name, plain(err))
	}
	count := bytes.Count(data, []byte(in.Old))
	if problem := editProblem(data, in, count); problem != "" {
		return Edited{}, tool.ModelRetry{Message: fmt.Sprintf("edit %q: %s", name, problem)}
	}
	changed := bytes.ReplaceAll(data, []byte(in.Old), []byte(in.New))
	if _, err := replace(root, real, changed); err != nil {
		return Edited{}, fmt.Errorf("write %q: %w", name, plain(err))
	}
	return Edited{Path: name, Replaced: count, Bytes: len(changed)}, nil
}

// editProblem says why old cannot be replaced, with what helps to say it better.
func editProblem(data []byte, in editArgs, count int) string {
	switch {
	case count == 0 && bytes.Contains(data, []byte("\r\n")) && bytes.Contains(
		bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte(strings.ReplaceAll(in.Old, "\r\n", "\n"))):
		return `old does not occur as written: the lines of this file end in \r\n`
	case count == 0:
		return "old does not occur in the file; read it again and copy the text exactly, white space included"
	case count > 1 && !in.All:
		return fmt.Sprintf("old occurs %d times, first in lines %s; add lines around it until it is unique, or set all", count, linesOf(data, in.Old, 5))
	}
	return ""
}

// linesOf names the lines in which text begins, at most n of them.
func linesOf(data []byte, text string, n int) string {
	var lines []string
	for at, line := 0, 1; len(lines) < n; {
		i := bytes.Index(data[at:], []byte(text))
		if i < 0 {
			break
		}
		line += bytes.Count(data[at:at+i], []byte("\n"))
		lines = append(lines, fmt.Sprint(line))
		line += strings.Count(text, "\n")
		at += i + len(text)
	}
	return strings.Join(lines, ", ")
}

type deleteArgs struct {
	Path string `json:"path" jsonschema_description:"file relative to the working directory"`
}

// Deleted is the result of delete_file.
type Deleted struct {
	Path string `json:"path"`
	// Kind is file or symlink; the target of a link is never touched.
	Kind string `json:"kind"`
}

func deleteFile(_ context.Context, call *tool.Context, in deleteArgs) (Deleted, error) {
	name, err := cleanPath(in.Path, false)
	if err != nil {
		return Deleted{}, err
	}
	root, err := openDir(call)
	if err != nil {
		return Deleted{}, err
	}
	defer root.Close()
	// The directory counts as what it really is, the name itself as it stands there.
	if err := checkWritable(path.Base(name)); err != nil {
		return Deleted{}, tool.ModelRetry{Message: fmt.Sprintf("path %q: %v", name, err)}
	}
	dir, err := writable(root, path.Dir(name))
	if err != nil {
		return Deleted{}, err
	}
	real := path.Join(dir, path.Base(name))
	info, err := root.Lstat(real)
	if err != nil {
		return Deleted{}, fmt.Errorf("delete %q: %w", name, plain(err))
	}
	kind := "file"
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		kind = "symlink"
	case info.IsDir():
		return Deleted{}, fmt.Errorf("delete %q: is a directory", name)
	case !info.Mode().IsRegular():
		return Deleted{}, fmt.Errorf("delete %q: %w", name, errSpecial)
	}
	if err := root.Remove(real); err != nil {
		return Deleted{}, fmt.Errorf("delete %q: %w", name, plain(err))
	}
	return Deleted{Path: name, Kind: kind}, nil
}
