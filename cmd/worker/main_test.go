package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("bad.yaml", []byte("profiles: {p: {modell: x}}\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no file":  {nil, "error: no configuration file at assent.yaml\nhint: name another one with --config FILE\n"},
		"bad file": {[]string{"--config", "bad.yaml"}, "error: bad.yaml:1:"},
		"argument": {[]string{"x"}, "error: unexpected argument \"x\"\nhint: see: worker --help\n"},
		"flag":     {[]string{"--nope"}, "error: unknown flag: --nope\nhint: see: worker --help\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, err bytes.Buffer
			require.Equal(t, 2, run(t.Context(), c.args, nil, &out, &err))
			require.Contains(t, err.String(), c.want)
			require.Empty(t, out.String())
		})
	}
}

func TestHelp(t *testing.T) {
	var out, err bytes.Buffer
	require.Equal(t, 0, run(t.Context(), []string{"--help"}, nil, &out, &err))
	require.Contains(t, out.String(), "worker --config assent.yaml")
	require.Empty(t, err.String())
}
