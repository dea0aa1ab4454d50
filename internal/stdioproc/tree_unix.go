//go:build unix

package stdioproc

import (
	"crypto/rand"
	_ "embed" // the keeper
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// markName is the environment variable that marks every process of a tree. Descendants inherit it, also those that
// leave the session.
const markName = "ASSENT_STDIO"

//go:embed keeper.sh
var keeperScript string

// shell runs the keeper.
const shell = "/bin/sh"

// tree is a program and everything that it started.
type tree struct {
	mark   string
	keeper *exec.Cmd
	made   time.Time
	pipe   *os.File // to the keeper

	mu sync.Mutex
	// head is the process that was started and the session and group that it leads; zero before and after.
	head int
	// seen holds the members that were ever found, with their start times, and sessions those that they were in.
	seen     map[int]string
	sessions map[int]bool
}

// newTree starts the keeper. Without one, what happens when the worker is killed is up to the kernel alone.
func newTree(log *slog.Logger) (*tree, error) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails, see crypto/rand
	t := &tree{mark: hex.EncodeToString(random[:]), made: time.Now(), seen: map[int]string{}, sessions: map[int]bool{}}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	keeper := exec.Command(shell, "-c", keeperScript, "assent-keeper", t.mark)
	keeper.Env, keeper.Dir, keeper.Stdin = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}, "/", r
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := keeper.Start(); err != nil {
		_ = w.Close()
		if log != nil {
			log.Warn("processes may survive the death of this worker, because their keeper did not start", "error", err)
		}
		return t, nil
	}
	t.keeper, t.pipe = keeper, w
	return t, nil
}

// environ adds the mark.
func (t *tree) environ(env []string) []string { return append(env, markName+"="+t.mark) }

// began tells the keeper which session is its.
func (t *tree) began(head *os.Process) error {
	t.mu.Lock()
	t.head = head.Pid
	t.mu.Unlock()
	t.tell(strconv.Itoa(head.Pid))
	return nil
}

func (t *tree) tell(line string) {
	if t.pipe != nil {
		_, _ = io.WriteString(t.pipe, line+"\n")
	}
}

// release ends the keeper. The tree has ended.
func (t *tree) release() {
	if t.pipe == nil {
		return
	}
	t.tell("done")
	_ = t.pipe.Close()
	_ = t.keeper.Wait()
}

func (t *tree) ask() { t.signal(syscall.SIGTERM) }

// kill ends the head and all that is found; what they still start is ended when the head is gone.
func (t *tree) kill() { t.signal(syscall.SIGKILL) }

// end ends what the head has left: first it asks. After it, the number of the head means nothing any more.
func (t *tree) end(grace time.Duration) {
	if t.signal(syscall.SIGTERM) > 0 && !t.gone(grace, 0) {
		t.gone(killWait, syscall.SIGKILL)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.signalGroup(syscall.SIGKILL)
	t.head = 0
}

// gone sends sig to what is left until nothing is or the time is over.
func (t *tree) gone(limit time.Duration, sig syscall.Signal) bool {
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if t.signal(sig) == 0 {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
}

func isBusy(err error) bool { return errors.Is(err, syscall.ETXTBSY) }

// signalGroup sends sig to the process group of the head and returns 1 if it has members. It is what a system
// without a process directory offers.
func (t *tree) signalGroup(sig syscall.Signal) int {
	if syscall.Kill(-t.head, sig) != nil {
		return 0
	}
	if sig == syscall.SIGTERM {
		_ = syscall.Kill(-t.head, syscall.SIGCONT) // a stopped process could not obey
	}
	return 1
}
