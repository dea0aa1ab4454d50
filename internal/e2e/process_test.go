package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/blob"
)

// workerEnv makes the test binary a worker process.
const workerEnv = "ASSENT_E2E_WORKER"

// spec is what a worker process is told.
type spec struct {
	Setup                          setup
	Address, Queue, Effects, Blobs string
}

func workerMain() int {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serve() error {
	var s spec
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &s); err != nil {
		return err
	}
	c, err := client.Dial(client.Options{HostPort: s.Address, Logger: sdklog.NewStructuredLogger(logger())})
	if err != nil {
		return err
	}
	defer c.Close()
	store, err := blob.NewDir(s.Blobs)
	if err != nil {
		return err
	}
	p, done, err := plugin(s.Setup, c, s.Effects, store)
	if err != nil {
		return err
	}
	defer done()
	w := sdkworker.New(c, s.Queue, options(p))
	if err := w.Start(); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	w.Stop()
	return nil
}

// process is a worker in a process of its own, for tests that kill it.
type process struct{ cmd *exec.Cmd }

func (w *world) spawn(s setup, address string) *process {
	w.t.Helper()
	b, err := json.Marshal(spec{Setup: s, Address: address, Queue: w.queue, Effects: w.effects,
		Blobs: filepath.Join(filepath.Dir(w.effects), "blobs")})
	require.NoError(w.t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(b))
	cmd.Stderr = os.Stderr
	require.NoError(w.t, cmd.Start())
	p := &process{cmd}
	w.t.Cleanup(func() { p.kill(w.t) })
	return p
}

// kill is SIGKILL; killing twice is fine.
func (p *process) kill(t testing.TB) {
	t.Helper()
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}
