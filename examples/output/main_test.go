package main

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/devserver/devservertest"
)

func TestMain(m *testing.M) { os.Exit(devservertest.Run(m)) }

func TestExample(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(context.Background(), []string{"--address", devservertest.Server(t).Address()}, nil, &stdout, &stderr), stderr.String())
	require.Equal(t, "ok: good, [it is short], for $0.0015\n", stdout.String())
}

func TestNoServer(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, 1, run(context.Background(), []string{"--address", "127.0.0.1:1"}, nil, &bytes.Buffer{}, &stderr))
	require.Contains(t, stderr.String(), "error: failed reaching server")
	require.Equal(t, 2, run(context.Background(), []string{"--adress", "x"}, nil, &bytes.Buffer{}, &stderr))
}
