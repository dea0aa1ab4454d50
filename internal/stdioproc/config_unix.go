//go:build !windows

package stdioproc

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// passed says which variables every program gets: where programs, its home and its language are. None of them holds a
// secret, and nothing else of the worker is passed on.
func passed(name string) bool {
	switch name {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TMPDIR", "TZ", "__CF_USER_TEXT_ENCODING":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}

func sameName(a, b string) bool { return a == b }

// executable returns path if a program can be there.
func executable(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%q is no file: %w", path, fs.ErrInvalid)
	}
	if info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("%q is not executable: %w", path, fs.ErrPermission)
	}
	return path, nil
}
