package toolbox

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/assent-dev/assent/tool"
)

// maxEntries is how many entries list_files returns at once.
const maxEntries = 500

type listArgs struct {
	Dir    string `json:"dir,omitempty" jsonschema_description:"directory relative to the working directory; empty is the working directory itself"`
	Cursor string `json:"cursor,omitempty" jsonschema_description:"the next of an earlier answer, to go on behind it"`
}

// Listing is the result of list_files: one directory, sorted by the bytes of the names.
type Listing struct {
	Dir     string  `json:"dir"`
	Entries []Entry `json:"entries"`
	// Next is the cursor of the following page; it is empty on the last one.
	Next string `json:"next,omitempty"`
}

// Entry is one name in a directory.
type Entry struct {
	// Name has U+FFFD in place of bytes that are not UTF-8; RawName then holds the bytes in base64.
	Name    string `json:"name"`
	RawName string `json:"rawName,omitempty"`
	// Kind is file, dir, symlink or other.
	Kind string `json:"kind"`
	// Size is in bytes and given for files.
	Size *int64 `json:"size,omitempty"`
	// Executable is true for files with any execute bit.
	Executable bool `json:"executable,omitempty"`
	// Target is what a symbolic link says.
	Target string `json:"target,omitempty"`
}

func listFiles(ctx context.Context, call *tool.Context, in listArgs) (Listing, error) {
	dir, err := cleanPath(in.Dir, true)
	if err != nil {
		return Listing{}, err
	}
	after, err := base64.RawURLEncoding.DecodeString(in.Cursor)
	if err != nil {
		return Listing{}, tool.ModelRetry{Message: fmt.Sprintf("cursor %q: is not one that list_files returned", in.Cursor)}
	}
	root, err := openDir(call)
	if err != nil {
		return Listing{}, err
	}
	defer root.Close()
	info, err := root.Stat(dir)
	if err == nil && !info.IsDir() {
		return Listing{}, fmt.Errorf("list %q: is not a directory", dir)
	}
	if err != nil {
		return Listing{}, fmt.Errorf("list %q: %w", dir, plain(err))
	}
	found, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return Listing{}, fmt.Errorf("list %q: %w", dir, plain(err))
	}
	slices.SortFunc(found, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	list := Listing{Dir: dir, Entries: []Entry{}}
	last := ""
	for _, e := range found {
		if in.Cursor != "" && e.Name() <= string(after) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return Listing{}, err
		}
		if len(list.Entries) == maxEntries {
			list.Next = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		last = e.Name()
		entry := describe(e)
		if entry.Kind == "symlink" {
			if target, err := root.Readlink(dir + "/" + e.Name()); err == nil {
				entry.Target = strings.ToValidUTF8(target, "\uFFFD")
			}
		}
		list.Entries = append(list.Entries, entry)
	}
	return list, nil
}

func describe(e fs.DirEntry) Entry {
	entry := Entry{Name: e.Name(), Kind: "other"}
	if !utf8.ValidString(entry.Name) {
		entry.Name = strings.ToValidUTF8(e.Name(), "\uFFFD")
		entry.RawName = base64.StdEncoding.EncodeToString([]byte(e.Name()))
	}
	switch mode := e.Type(); {
	case mode.IsDir():
		entry.Kind = "dir"
	case mode&fs.ModeSymlink != 0:
		entry.Kind = "symlink"
	case mode.IsRegular():
		entry.Kind = "file"
		// A file that went away in between has no size.
		if info, err := e.Info(); err == nil {
			size := info.Size()
			entry.Size, entry.Executable = &size, info.Mode()&0o111 != 0
		}
	}
	return entry
}
