//go:build unix

package devserver

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.yaml.in/yaml/v3"
)

// acting is a server program that behaves as act says, and the file with a line for each time it was started.
func acting(t *testing.T, act string) (Binary, string) {
	t.Helper()
	starts := filepath.Join(t.TempDir(), "starts")
	t.Setenv("STARTS", starts)
	t.Setenv(actVariable, act)
	return Binary{Path: os.Args[0]}, starts
}

// startOwner runs a process that has a server.
func startOwner(t *testing.T, detached bool) (owner *exec.Cmd, port, pid int) {
	t.Helper()
	owner = exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), actVariable+"=owner")
	if detached {
		owner.Env = append(owner.Env, "DETACH=1")
	}
	owner.Stderr = os.Stderr
	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	var started struct {
		Port, PID int
	}
	require.NoError(t, json.NewDecoder(out).Decode(&started))
	return owner, started.Port, started.PID
}

func TestStartAndStop(t *testing.T) {
	b, starts := acting(t, "serve")
	t.Chdir(t.TempDir())
	s, err := Start(t.Context(), StartOptions{Binary: b, UI: true, DBFile: "relative.db", Namespace: "team"})
	require.NoError(t, err)
	assert.Equal(t, "team", s.Namespace())
	assert.Equal(t, "http://"+hostPort(s.ports.ui), s.UIURL())
	for _, url := range []string{"http://" + s.Address(), s.UIURL(), s.HTTPURL()} {
		assert.Regexp(t, `^http://127\.0\.0\.1:\d+$`, url)
	}
	text, err := os.ReadFile(starts)
	require.NoError(t, err)
	here, err := os.Getwd()
	require.NoError(t, err)
	for _, flag := range []string{
		"server start-dev --ip 127.0.0.1 --port ", " --namespace team ", " --ui-port ",
		" --db-filename " + filepath.Join(here, "relative.db") + " --sqlite-pragma journal_mode=wal --sqlite-pragma synchronous=normal ",
		" --dynamic-config-value matching.numTaskqueueReadPartitions=1 ",
		" --search-attribute AssentPendingTool=KeywordList ",
	} {
		assert.Contains(t, string(text), flag)
	}
	select {
	case <-s.Exited():
		t.Fatal("it has ended")
	default:
	}
	require.NoError(t, s.Stop(t.Context()))
	<-s.Exited()
	assertGone(t, s.PID())
	require.NoError(t, s.Stop(t.Context()), "twice is once")
	require.NoError(t, s.Kill())
	assert.Equal(t, 1, lines(t, starts))
}

func TestOneServerPerDatabase(t *testing.T) {
	b, _ := acting(t, "serve")
	o := StartOptions{Binary: b, DBFile: filepath.Join(t.TempDir(), "x.db")}
	first, err := Start(t.Context(), o)
	require.NoError(t, err)
	_, err = Start(t.Context(), o)
	require.ErrorIs(t, err, ErrDatabaseInUse)
	require.NoError(t, first.Kill())
	second, err := Start(t.Context(), o)
	require.NoError(t, err, "a killed server has left it at once")

	// The lock is the server's own: it holds when nobody else is left who knows of it.
	require.NoError(t, second.database.Close())
	_, err = Start(t.Context(), o)
	require.ErrorIs(t, err, ErrDatabaseInUse)
	require.NoError(t, second.Stop(t.Context()))

	o.DBFile = filepath.Join(t.TempDir(), "none", "x.db")
	_, err = Start(t.Context(), o)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestStubbornServerIsKilled(t *testing.T) {
	b, _ := acting(t, "stubborn")
	s, err := Start(t.Context(), StartOptions{Binary: b})
	require.NoError(t, err)
	assert.Empty(t, s.UIURL())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Stop(ctx))
	assertGone(t, s.PID())
}

func TestServerThatFailsOnItsOwn(t *testing.T) {
	b, _ := acting(t, "serve")
	s, err := Start(t.Context(), StartOptions{Binary: b})
	require.NoError(t, err)
	require.NoError(t, s.process.Kill())
	<-s.Exited()
	require.ErrorContains(t, s.Stop(t.Context()), "had ended: signal: killed")
}

// The exit code of a server that was told to end says nothing.
func TestExitCodeAfterStop(t *testing.T) {
	b, _ := acting(t, "sour")
	s, err := Start(t.Context(), StartOptions{Binary: b})
	require.NoError(t, err)
	require.NoError(t, s.Stop(t.Context()))
}

func TestServerThatDoesNotStart(t *testing.T) {
	for _, c := range []struct {
		act    string
		port   int
		starts int
		want   string
	}{
		{"crash", 0, attempts, "start the Temporal development server: it ended at once: exit status 1; it printed:\nline 80\n"},
		{"crash", 1, 1, "exit status 1"},
		{"usage", 0, 1, "exit status 2; it printed:\nerror: unknown flag"},
		{"quit", 0, 1, "it ended at once, without an error"},
		{"othertype", 0, 1, `search attribute "AssentStatus" is Text in this database and Keyword here`},
	} {
		t.Run(c.act+strconv.Itoa(c.port), func(t *testing.T) {
			b, starts := acting(t, c.act)
			o := StartOptions{Binary: b}
			if c.port != 0 {
				free, err := reserve(StartOptions{})
				require.NoError(t, err)
				o.Port = free.grpc
				free.release()
			}
			_, err := Start(t.Context(), o)
			var failed *StartError
			require.ErrorAs(t, err, &failed)
			assert.Contains(t, err.Error(), c.want)
			assert.Equal(t, c.starts, lines(t, starts))
		})
	}
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	b, starts := acting(t, "hang")
	logs := filepath.Join(t.TempDir(), "log")
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() {
		_, err := Start(ctx, StartOptions{Binary: b, LogFile: logs})
		started <- err
	}()
	require.Eventually(t, func() bool { return lines(t, starts) == 1 }, 3*time.Minute, 5*time.Millisecond)
	cancel()
	err := <-started
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, lines(t, starts))
}

func TestNoProgram(t *testing.T) {
	_, err := Start(t.Context(), StartOptions{Binary: Binary{Path: filepath.Join(t.TempDir(), "none")}})
	require.ErrorIs(t, err, os.ErrNotExist)
	var failed *StartError
	require.ErrorAs(t, err, &failed)
	_, err = Start(t.Context(), StartOptions{LogFile: filepath.Join(t.TempDir(), "none", "log")})
	require.ErrorAs(t, err, &failed)
}

func TestBusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	b, starts := acting(t, "serve")
	_, err = Start(t.Context(), StartOptions{Binary: b, Port: l.Addr().(*net.TCPAddr).Port})
	require.ErrorContains(t, err, "reserve port")
	assert.Zero(t, lines(t, starts))
}

func TestReservedPortsAreDifferent(t *testing.T) {
	seen := map[int]bool{}
	for range 20 {
		r, err := reserve(StartOptions{UI: true})
		require.NoError(t, err)
		for _, port := range []int{r.grpc, r.http, r.ui} {
			assert.False(t, seen[port], "given out twice within a minute")
			seen[port] = true
		}
		r.release()
		l, err := net.Listen("tcp", hostPort(r.grpc))
		require.NoError(t, err, "and yet free for the server")
		require.NoError(t, l.Close())
	}
}

func TestLogFileIsAppendedTo(t *testing.T) {
	b, _ := acting(t, "crash")
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, "before\n", 0o644)
	_, err := Start(t.Context(), StartOptions{Binary: b, LogFile: path})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "before")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(text), "before\nline 0\n"))
}

// The Temporal command is told by flags what our own program reads in the file.
func TestFlagsSayWhatTheFileSays(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "temporal-dev.yaml"))
	require.NoError(t, err)
	var file struct {
		Devserver struct {
			SearchAttributes map[string]string `yaml:"searchAttributes"`
			SqlitePragmas    map[string]string `yaml:"sqlitePragmas"`
			DynamicConfig    map[string]any    `yaml:"dynamicConfig"`
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	assert.Equal(t, file.Devserver.SqlitePragmas, sqlitePragmas)
	fromFile := map[string]enumspb.IndexedValueType{}
	for name, kind := range file.Devserver.SearchAttributes {
		fromFile[name], err = enumspb.IndexedValueTypeFromString(kind)
		require.NoError(t, err)
	}
	assert.Equal(t, fromFile, searchAttributes)
	values := map[string]string{}
	for key, value := range file.Devserver.DynamicConfig {
		encoded, err := json.Marshal(value)
		require.NoError(t, err)
		values[key] = string(encoded)
	}
	assert.Equal(t, values, dynamicConfig)
}
