//go:build unix

package devserver

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const tinyVersion = "assent devserver (Server 0.0.0, UI 0.0.0)"

// tinyModule is a checkout whose nested module compiles in a moment.
func tinyModule(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "go.mod"), "module "+modulePath+"\n", 0o644)
	write(t, filepath.Join(root, "devserver", "go.mod"), "module "+modulePath+"/devserver\n\ngo 1.26.0\n", 0o644)
	write(t, filepath.Join(root, "devserver", "main.go"), "package main\n\nfunc main() { print2() }\n", 0o644)
	write(t, filepath.Join(root, "devserver", "out.go"),
		"package main\n\nimport \"os\"\n\nfunc print2() { os.Stdout.WriteString(`"+tinyVersion+"`) }\n", 0o644)
	return root
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
}

func testLocator(root, cache string, progress io.Writer) *locator {
	return &locator{
		choice:   "build",
		cacheDir: func() (string, error) { return cache, nil },
		root:     func(context.Context) (string, error) { return root, nil },
		progress: newProgress(progress),
	}
}

// onPath puts a shell script called name before everything on PATH.
func onPath(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, name), "#!/bin/sh\n"+script, 0o755)
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// countGo counts the compilers that are started, and returns the file with a line for each.
func countGo(t *testing.T) string {
	t.Helper()
	real, err := exec.LookPath("go")
	require.NoError(t, err)
	count := filepath.Join(t.TempDir(), "count")
	onPath(t, "go", "echo run >> '"+count+"'\nexec '"+real+"' \"$@\"\n")
	return count
}

func lines(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(t, err)
	return bytes.Count(text, []byte("\n"))
}

func TestTemporalCommandIsPreferred(t *testing.T) {
	l := testLocator(tinyModule(t), t.TempDir(), nil)
	l.choice = ""
	onPath(t, "temporal", "echo 'temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)'\n")
	b, err := l.locate(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)", b.Version)
	assert.Equal(t, "temporal", filepath.Base(b.Path))
	assert.Empty(t, b.Config)

	l.choice = "build"
	b, err = l.locate(t.Context())
	require.NoError(t, err)
	assert.Equal(t, tinyVersion, b.Version)
}

func TestSomethingElseCalledTemporalIsPassedOver(t *testing.T) {
	root, cache := tinyModule(t), t.TempDir()
	for name, script := range map[string]string{
		"another program": "echo 'temporal 3.2: a calendar'\n",
		"fails":           "echo 'temporal version 1.5.1'\nexit 1\n",
		"silent":          "exit 0\n",
	} {
		t.Run(name, func(t *testing.T) {
			onPath(t, "temporal", script)
			l := testLocator(root, cache, nil)
			l.choice = ""
			b, err := l.locate(t.Context())
			require.NoError(t, err)
			assert.Equal(t, tinyVersion, b.Version)
			assert.Equal(t, filepath.Join(root, "temporal-dev.yaml"), b.Config)
		})
	}
}

func TestNamedProgram(t *testing.T) {
	dir := t.TempDir()
	named := filepath.Join(dir, "mine")
	write(t, named, "#!/bin/sh\necho '"+tinyVersion+"'\n", 0o755)
	l := testLocator(tinyModule(t), dir, nil)
	l.choice, l.config = named, "/else/where.yaml"
	b, err := l.locate(t.Context())
	require.NoError(t, err)
	assert.Equal(t, Binary{Path: named, Version: tinyVersion, Config: "/else/where.yaml"}, b)

	for _, choice := range []string{filepath.Join(dir, "none"), "biuld"} {
		l.choice = choice
		_, err = l.locate(t.Context())
		assert.True(t, IsNotFound(err), err)
		var n *NotFoundError
		require.ErrorAs(t, err, &n)
		assert.Contains(t, n.Error(), "ASSENT_DEVSERVER="+choice)
		assert.NotEmpty(t, n.Hint)
		require.Error(t, n.Unwrap())
	}
}

func TestModuleRoot(t *testing.T) {
	here, err := os.Getwd()
	require.NoError(t, err)
	want := filepath.Dir(filepath.Dir(here))
	root, err := moduleRoot(t.Context())
	require.NoError(t, err)
	assert.Equal(t, want, root)

	// A nested module is not the root, and what is around it is.
	tiny := tinyModule(t)
	t.Chdir(filepath.Join(tiny, "devserver"))
	root, err = moduleRoot(t.Context())
	require.NoError(t, err)
	assertSameFile(t, tiny, root)

	// Elsewhere, this program still knows where it was compiled.
	t.Chdir(t.TempDir())
	root, err = moduleRoot(t.Context())
	require.NoError(t, err)
	assert.Equal(t, want, root)
}

func assertSameFile(t *testing.T, a, b string) {
	t.Helper()
	x, err := os.Stat(a)
	require.NoError(t, err)
	y, err := os.Stat(b)
	require.NoError(t, err)
	assert.True(t, os.SameFile(x, y), "%s and %s", a, b)
}

func TestModuleOf(t *testing.T) {
	dir := t.TempDir()
	assert.Empty(t, moduleOf(dir))
	write(t, filepath.Join(dir, "go.mod"), "// a comment\n\nmodule \"example.com/x\"\n", 0o644)
	assert.Equal(t, "example.com/x", moduleOf(dir))
	write(t, filepath.Join(dir, "go.mod"), "go 1.26\n", 0o644)
	assert.Empty(t, moduleOf(dir))
	write(t, filepath.Join(dir, "go.mod"), "module "+modulePath+"\n", 0o644)
	assert.False(t, isRoot(dir), "without the nested module, as the module proxy delivers it")
}
