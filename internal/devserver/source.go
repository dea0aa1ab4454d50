package devserver

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// moduleRoot returns the directory of this module with the nested one in it: that of a checkout around the working
// directory, else the one that this program was compiled from, else the one that the module around the working
// directory uses.
//
// The last is a checkout only if it is used through a replace directive or a workspace: what the module proxy
// delivers does not contain nested modules.
func moduleRoot(ctx context.Context) (string, error) {
	dir, err := os.Getwd()
	if err == nil {
		for at := dir; ; at = filepath.Dir(at) {
			if isRoot(at) {
				return at, nil
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	// Empty or of no use in a program built with -trimpath; isRoot tells.
	if _, file, _, ok := runtime.Caller(0); ok {
		if root := filepath.Join(filepath.Dir(file), "..", ".."); filepath.IsAbs(file) && isRoot(root) {
			return root, nil
		}
	}
	cmd := exec.CommandContext(ctx, goCommand(), "list", "-m", "-f", "{{.Dir}}", modulePath)
	if out, err := cmd.Output(); err == nil {
		if root := strings.TrimSpace(string(out)); isRoot(root) {
			return root, nil
		}
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return "", &NotFoundError{
		Reason: "no `temporal` on PATH, and no checkout of " + modulePath + " to build one from",
		Hint:   installHint + ", or start in a checkout",
	}
}

// isRoot reports whether dir is this module's root and holds the nested module.
func isRoot(dir string) bool {
	return moduleOf(dir) == modulePath && moduleOf(filepath.Join(dir, "devserver")) != ""
}

// moduleOf returns the module path in dir/go.mod, or nothing.
func moduleOf(dir string) string {
	f, err := os.Open(filepath.Join(dir, "go.mod"))
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "module "); ok {
			return strings.Trim(strings.TrimSpace(name), `"`)
		}
	}
	return ""
}

// goCommand is `go`, or the one that belongs to the toolchain this program was built with if PATH has none.
func goCommand() string {
	if path, err := exec.LookPath("go"); err == nil {
		return path
	}
	if root := os.Getenv("GOROOT"); root != "" {
		return filepath.Join(root, "bin", "go")
	}
	return "go"
}
