package stdioproc

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
)

func TestWhatCannotBeStarted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the files of this test are scripts")
	}
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	plain := write("plain", "#!/bin/sh\n", 0o600)
	for _, c := range []struct {
		config Config
		key    string
		says   string
	}{
		{Config{}, "command", "no program is named"},
		{Config{Command: []string{""}}, "command", "no program is named"},
		{Config{Command: []string{"no-such-program"}, Env: map[string]string{"PATH": "/a:relative:/b"}}, "command", `no program "no-such-program" in the PATH of the worker: /a:/b`},
		{Config{Command: []string{filepath.Join(dir, "none")}}, "command", "no such file"},
		{Config{Command: []string{"./none"}}, "command", "no such file"},
		{Config{Command: []string{plain}}, "command", "is not executable"},
		{Config{Command: []string{"plain"}, Env: map[string]string{"PATH": dir}}, "command", "is not executable"},
		{Config{Command: []string{dir}}, "command", "is no file"},
		{Config{Command: []string{"sh", "a\x00b"}}, "command", "NUL"},
		{Config{Command: []string{"sh"}, Env: map[string]string{"A=B": ""}}, "env", "A=B"},
		{Config{Command: []string{"sh"}, Env: map[string]string{"A": "\x00"}}, "env", "A"},
		{Config{Command: []string{"sh"}, PassEnv: []string{""}}, "passEnv", "cannot be"},
		{Config{Command: []string{"sh"}, Dir: filepath.Join(dir, "none")}, "dir", "no such file"},
		{Config{Command: []string{"sh"}, Dir: plain}, "dir", "no directory"},
		// What only the system knows.
		{Config{Command: []string{write("odd", "neither a script nor a program", 0o700)}}, "command", "exec format error"},
		{Config{Command: []string{write("lost", "#!/no/such/interpreter\n", 0o700)}}, "command", "names an interpreter"},
	} {
		_, err := Start(c.config)
		var config *fault.ConfigError
		require.ErrorAs(t, err, &config, "%v", c.config)
		require.Equal(t, c.key, config.Key)
		require.ErrorContains(t, err, c.says)
	}
}

func TestAProgramIsNotLookedForInDir(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "evil"), []byte("#!/bin/sh\n"), 0o700))
	for _, name := range []string{"./evil", "evil"} {
		_, err := Config{Command: []string{name}, Dir: dir, Env: map[string]string{"PATH": ".:" + filepath.Dir(dir)}}.Look()
		require.True(t, fault.IsConfig(err), "%v", err)
	}
}

func TestTheEnvironmentIsClosed(t *testing.T) {
	for name, value := range map[string]string{"ASSENT_SECRET": "s", "LC_SPECIAL": "l", "NAMED": "n", "WON": "worker", "HOME": "/home/of/test"} {
		t.Setenv(name, value)
	}
	c := Config{Env: map[string]string{"GIVEN": "g=h", "WON": "given"}, PassEnv: []string{"NAMED", "NOT_SET", "WON"}}
	env := c.environ()
	require.IsIncreasing(t, env)
	for _, want := range []string{"LC_SPECIAL=l", "NAMED=n", "GIVEN=g=h", "WON=given"} {
		require.Contains(t, env, want)
	}
	given := []string{"GIVEN", "NAMED", "WON"}
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		require.True(t, passed(name) || contains(given, name), entry)
	}
	require.NotContains(t, env, "ASSENT_SECRET=s")

	t.Setenv("PATH", "")
	require.Equal(t, defaultPath, variable(Config{}.environ(), "PATH"))
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
