package main

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPortsAreAllDifferentAndUsable(t *testing.T) {
	p := mustPlan(t, "--port", "0", "--ip", "0.0.0.0")
	held, err := p.takePorts()
	require.NoError(t, err)
	defer held.release()

	seen := map[int]bool{p.httpPort: true, p.uiPort: true}
	for name, service := range p.cfg.Services {
		rpc := service.RPC
		assert.NotZero(t, rpc.GRPCPort, name)
		assert.False(t, seen[rpc.GRPCPort], name)
		seen[rpc.GRPCPort] = true
		if name == "frontend" {
			assert.Equal(t, []any{"0.0.0.0", p.port, p.httpPort}, []any{rpc.BindOnIP, rpc.GRPCPort, rpc.HTTPPort})
		} else {
			assert.Equal(t, "127.0.0.1", rpc.BindOnIP, "inner services are nobody else's")
		}
	}
	assert.Len(t, seen, 6)
	assert.Equal(t, "127.0.0.1:"+strconv.Itoa(p.port), p.frontend)
	assert.Equal(t, p.frontend, p.cfg.PublicClient.HostPort)
	assert.Equal(t, p.frontend, p.cfg.ClusterMetadata.ClusterInformation["active"].RPCAddress)

	held.release()
	for port := range seen {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		require.NoError(t, err, "free again for the server")
		require.NoError(t, l.Close())
	}
}

func TestBusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	busy := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	t.Setenv(configVariable, genuine)
	for _, flag := range []string{"port", "http-port", "ui-port", "metrics-port"} {
		args := []string{"--" + flag, busy}
		if flag != "port" {
			args = append(args, "--port", "0")
		}
		var stdout, stderr bytes.Buffer
		assert.Equal(t, 1, run(context.Background(), args, nil, &stdout, &stderr), flag)
		assert.Empty(t, stdout.String())
		assert.Equal(t, "error: port "+busy+" on 127.0.0.1 is in use\n"+
			"hint: end the program that has it (perhaps another devserver), or choose another one with --"+flag+"\n", stderr.String())
	}
}

func TestAddressOfAnotherMachine(t *testing.T) {
	t.Setenv(configVariable, genuine)
	var stdout, stderr bytes.Buffer
	assert.Equal(t, 1, run(context.Background(), []string{"--ip", "192.0.2.1", "--port", "0"}, nil, &stdout, &stderr))
	assert.Contains(t, stderr.String(), "error: listen on 192.0.2.1:0: ")
	assert.Contains(t, stderr.String(), "\nhint: ")
}
