package connect_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/exit"
)

func TestMain(m *testing.M) { os.Exit(devservertest.Run(m)) }

// bare takes the developer's own settings away.
func bare(t *testing.T) {
	t.Helper()
	for _, name := range []string{"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_API_KEY", "TEMPORAL_TLS", "TEMPORAL_PROFILE"} {
		t.Setenv(name, "") // remembers the value for the end of the test
		require.NoError(t, os.Unsetenv(name))
	}
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
}

// From the weakest to the strongest: default, temporal.toml, the caller's file, the environment, flags.
func TestWhatWins(t *testing.T) {
	bare(t)
	meant := func(s connect.Settings, address, namespace string) {
		t.Helper()
		o, err := connect.Options(s)
		require.NoError(t, err)
		require.Equal(t, []string{address, namespace}, []string{o.HostPort, o.Namespace})
	}
	meant(connect.Settings{}, connect.DefaultAddress, connect.DefaultNamespace)
	toml := filepath.Join(t.TempDir(), "temporal.toml")
	require.NoError(t, os.WriteFile(toml, []byte("[profile.default]\naddress = \"toml:1\"\nnamespace = \"toml\"\n"), 0o600))
	t.Setenv("TEMPORAL_CONFIG_FILE", toml)
	meant(connect.Settings{}, "toml:1", "toml")
	file := connect.Settings{FileAddress: "file:1", FileNamespace: "file"}
	meant(file, "file:1", "file")
	t.Setenv("TEMPORAL_ADDRESS", "env:1")
	meant(file, "env:1", "file")
	t.Setenv("TEMPORAL_NAMESPACE", "env")
	flags := file
	flags.Address = "flag:1"
	meant(flags, "flag:1", "env")

	// A program's own server has nothing to do with all that.
	t.Setenv("TEMPORAL_TLS", "true")
	t.Setenv("TEMPORAL_API_KEY", "secret")
	alone := connect.Settings{Address: "own:1", Alone: true}
	meant(alone, "own:1", connect.DefaultNamespace)
	o, err := connect.Options(alone)
	require.NoError(t, err)
	require.Nil(t, o.ConnectionOptions.TLS)
	require.Nil(t, o.Credentials)
}

func TestABadProfileIsAConfigError(t *testing.T) {
	bare(t)
	t.Setenv("TEMPORAL_PROFILE", "nobody")
	_, err := connect.Options(connect.Settings{})
	require.True(t, fault.IsConfig(err), "%v", err)
}

func TestNoServer(t *testing.T) {
	bare(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := connect.Dial(ctx, connect.Settings{Address: "127.0.0.1:1", Alone: true})
	var none *connect.NoServerError
	require.ErrorAs(t, err, &none)
	require.Equal(t, "no Temporal server at 127.0.0.1:1", err.Error())
	require.Equal(t, exit.Failed, exit.CodeOf(err))
	require.NoError(t, ctx.Err(), "it gives up by itself")
}

func TestAServer(t *testing.T) {
	bare(t)
	address := devservertest.Server(t).Address()
	s, err := connect.Dial(t.Context(), connect.Settings{Address: address})
	require.NoError(t, err)
	s.Close()
	_, err = connect.Dial(t.Context(), connect.Settings{Address: address, Namespace: "not-there"})
	require.ErrorContains(t, err, "no namespace \"not-there\" on the Temporal server at "+address)
}
