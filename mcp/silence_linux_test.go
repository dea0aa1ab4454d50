package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
)

// aProgram is the official SDK's server in a program of its own, and its session.
func aProgram(t *testing.T, c Config, patience silence) (echo *tool.Def, conn *session, at *place) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c.Name, c.Command, c.StartTimeout = "s", []string{self, "-test.run=^$"}, 3*time.Minute
	c.Env = map[string]string{"MCP_TEST_SERVER": "good", "GORACE": "atexit_sleep_ms=0"}
	s, err := New(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	s.silence = patience
	defs, err := s.Tools(context.Background())
	require.NoError(t, err)
	for _, d := range defs {
		if d.Name() == "s_echo" {
			echo = d
		}
	}
	at, err = s.places.take(context.Background(), "")
	require.NoError(t, err)
	t.Cleanup(at.leave)
	conn, err = at.session(context.Background())
	require.NoError(t, err)
	return echo, conn, at
}

func stop(t *testing.T, conn *session, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Kill(conn.proc.Pid(), sig))
	if sig == syscall.SIGSTOP {
		require.Eventually(t, func() bool { return stopped(conn.proc.Pid()) }, 3*time.Minute, time.Millisecond)
	}
}

// stopped reports that no thread runs any more: kill returns before, and a thread that still runs may answer.
func stopped(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(stat), ") T ") {
			return false
		}
	}
	return true
}

// A program that hangs without dying is ended after a call and a ping without an answer, and the next call starts another.
func TestAProgramThatHangs(t *testing.T) {
	t.Parallel()
	echo, conn, at := aProgram(t, Config{CallTimeout: time.Second}, silence{call: 500 * time.Millisecond, ping: 300 * time.Millisecond})
	stop(t, conn, syscall.SIGSTOP)
	r := echo.Invoke(context.Background(), &tool.Context{}, json.RawMessage(`{"text":"a"}`))
	require.Equal(t, tool.EffectUnknown, r.Code)
	require.Contains(t, r.Failure.Message, "no answer in 1s")
	select {
	case <-conn.proc.Done():
	case <-time.After(3 * time.Minute):
		require.Fail(t, "the program is not ended")
	}
	next, err := at.session(context.Background())
	require.NoError(t, err)
	assert.NotEqual(t, conn.proc.Pid(), next.proc.Pid())
}

// An agent that calls again at once is not one of those who keep the program: its call waits for the ping.
func TestAProgramThatHangsUnderCallsInARow(t *testing.T) {
	t.Parallel()
	echo, conn, _ := aProgram(t, Config{CallTimeout: time.Minute}, silence{call: time.Second, ping: 300 * time.Millisecond})
	stop(t, conn, syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	r := echo.Invoke(ctx, &tool.Context{}, json.RawMessage(`{"text":"a"}`))
	require.NotEqual(t, tool.OK, r.Code)
	r = echo.Invoke(context.Background(), &tool.Context{}, json.RawMessage(`{"text":"b"}`))
	require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
}

// A call that others wait for may be what a program is busy with, and one that wakes up in time is kept.
func TestAProgramThatIsBusy(t *testing.T) {
	t.Parallel()
	echo, conn, at := aProgram(t, Config{CallTimeout: 3 * time.Minute}, silence{call: time.Millisecond, ping: 3 * time.Minute})
	before := conn.heard()
	require.Positive(t, before)
	stop(t, conn, syscall.SIGSTOP)
	answer := make(chan tool.Result, 1)
	go func() {
		answer <- echo.Invoke(context.Background(), &tool.Context{}, json.RawMessage(`{"text":"b"}`))
	}()
	require.Eventually(t, conn.wire.waiting, 3*time.Minute, time.Millisecond)
	cancelled := func() {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(50*time.Millisecond, cancel)
		assert.Equal(t, tool.Aborted, echo.Invoke(ctx, &tool.Context{}, json.RawMessage(`{"text":"c"}`)).Code)
	}
	pinging := func() bool {
		return conn.asked() != nil
	}
	cancelled()
	assert.False(t, pinging(), "another call is under way")
	stop(t, conn, syscall.SIGCONT)
	require.Equal(t, `"b"`, string((<-answer).Value))

	// What it still had to say may come meanwhile, and then it is not silent.
	for !pinging() {
		stop(t, conn, syscall.SIGSTOP)
		cancelled()
		if !pinging() {
			stop(t, conn, syscall.SIGCONT)
		}
	}
	stop(t, conn, syscall.SIGCONT)
	require.Eventually(t, func() bool { return !pinging() }, 3*time.Minute, time.Millisecond)
	same, err := at.session(context.Background())
	require.NoError(t, err)
	assert.Same(t, conn, same)
}
