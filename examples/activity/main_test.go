package main

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/devserver/devservertest"
)

func TestMain(m *testing.M) { os.Exit(devservertest.Run(m)) }

// The example's call is asked about, allowed, and made once by the other team's worker.
func TestExample(t *testing.T) {
	var stdout, stderr bytes.Buffer
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	code := run(ctx, []string{"--address", devservertest.Server(t).Address(), "--blobs", t.TempDir()}, nil, &stdout, &stderr)
	require.Zero(t, code, stderr.String())
	require.Equal(t, "allowed: invoice {\"cents\":1200,\"customer\":\"ada\"}\n"+
		"billing: invoice over 1200 cents sent to ada\n"+
		"agent: ok, done\n", stdout.String())
}

func TestWrongUse(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, 2, run(context.Background(), []string{"--nothing"}, nil, &stdout, &stderr))
	require.Equal(t, 1, run(context.Background(), []string{"--address", "127.0.0.1:1", "--blobs", t.TempDir()}, nil, &stdout, &stderr))
	require.Contains(t, stderr.String(), "error:")
}
