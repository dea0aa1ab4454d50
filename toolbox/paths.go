package toolbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/assent-dev/assent/tool"
)

// The file tools name files by slash-separated paths relative to the working directory of the agent.

// maxLinks bounds the symbolic links followed for one path.
const maxLinks = 40

// openDir opens the working directory; everything is then reached below it only.
func openDir(call *tool.Context) (*os.Root, error) {
	if call.Dir == "" {
		return nil, errors.New("this agent has no working directory")
	}
	root, err := os.OpenRoot(call.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the working directory: %w", plain(err))
	}
	return root, nil
}

// cleanPath refuses paths by name before any file is touched. A directory may be empty, which is the working directory.
func cleanPath(name string, dir bool) (string, error) {
	refuse := func(why string) (string, error) {
		return "", tool.ModelRetry{Message: fmt.Sprintf("path %q: %s", name, why)}
	}
	slashed := strings.ReplaceAll(name, `\`, "/")
	switch {
	case name == "" && dir:
		return ".", nil
	case name == "":
		return refuse("is empty; name a file relative to the working directory")
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return refuse("is not text that can name a file")
	case strings.HasPrefix(slashed, "/") || filepath.IsAbs(name) || drive.MatchString(name):
		return refuse("is absolute; name it relative to the working directory")
	}
	for step := range strings.SplitSeq(slashed, "/") {
		if step == ".." {
			return refuse(`contains ".."; only files below the working directory can be reached`)
		}
	}
	clean := path.Clean(filepath.ToSlash(name))
	if clean == "." && !dir {
		return refuse("is the working directory itself")
	}
	return clean, nil
}

var drive = regexp.MustCompile(`^[a-zA-Z]:`)

// resolve follows the symbolic links of a path below root by hand and returns the path without them. The last steps
// may not exist. Links that leave the root are an error, as they are in os.Root itself.
func resolve(root *os.Root, name string) (string, error) {
	todo := strings.Split(filepath.ToSlash(name), "/")
	var done []string
	for links := 0; len(todo) > 0; {
		step := todo[0]
		todo = todo[1:]
		switch step {
		case "", ".":
			continue
		case "..":
			if len(done) == 0 {
				return "", errEscapes
			}
			done = done[:len(done)-1]
			continue
		}
		at := strings.Join(append(done[:len(done):len(done)], step), "/")
		info, err := root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			done = append(done, step)
			continue
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = append(done, step)
			continue
		}
		if links++; links > maxLinks {
			return "", errors.New("too many symbolic links")
		}
		target, err := root.Readlink(at)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			return "", errEscapes
		}
		todo = append(strings.Split(filepath.ToSlash(target), "/"), todo...)
	}
	if len(done) == 0 {
		return ".", nil
	}
	return strings.Join(done, "/"), nil
}

var (
	errEscapes = errors.New("a symbolic link on the way leaves the working directory")
	errGit     = errors.New("names .git, which is not written by this tool; use git")
)

// checkWritable refuses the directory of git, in every spelling that some file system takes for it.
func checkWritable(name string) error {
	for step := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
		if isGit(step) {
			return errGit
		}
	}
	return nil
}

var shortGit = regexp.MustCompile(`^git~[0-9]+$`)

// isGit reports whether a name is .git, or would be on a file system that ignores case, trailing dots and blanks,
// invisible characters, or knows streams and short names.
func isGit(name string) bool {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, name)
	name, _, _ = strings.Cut(name, ":")
	name = strings.ToLower(strings.TrimRight(name, ". "))
	return name == ".git" || shortGit.MatchString(name)
}

// writable returns the real path behind a cleaned name, if it may be written.
func writable(root *os.Root, name string) (string, error) {
	if err := checkWritable(name); err != nil {
		return "", tool.ModelRetry{Message: fmt.Sprintf("path %q: %v", name, err)}
	}
	real, err := resolve(root, name)
	if err != nil {
		return "", fmt.Errorf("open %q: %w", name, plain(err))
	}
	if err := checkWritable(real); err != nil {
		return "", tool.ModelRetry{Message: fmt.Sprintf("path %q: %v", name, err)}
	}
	return real, nil
}

// openRegular opens a regular file for reading; named pipes, devices and sockets are refused without waiting for them.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open %q: %w", name, plain(err))
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("is a directory")
	} else if err == nil && !info.Mode().IsRegular() {
		err = errSpecial
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("open %q: %w", name, plain(err))
	}
	return f, info, nil
}

// plain strips the operation and path that the system puts around an error, because ours name the path as the model knows it.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
