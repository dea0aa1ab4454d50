package gitproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Call is one run of git.
type Call struct {
	// Args follow the options that every call gets.
	Args []string
	// Env is added to the closed environment: GIT_DIR, GIT_WORK_TREE, GIT_INDEX_FILE and the like.
	Env []string
	// Stdin may be nil.
	Stdin io.Reader
	// Limit is the most bytes of output; zero means 64 MiB.
	Limit int64
	// To, if not nil, gets the output as it comes, without a limit, and Run returns none. Its error ends the call.
	To io.Writer
	// Lock is the path of the lock file that all processes of this call inherit; empty for calls that only read.
	Lock string
	// Programs adds the system's folders to PATH, for filters that were allowed.
	Programs bool
}

const (
	defaultLimit = 64 << 20
	maxComplaint = 4 << 10 // bytes of stderr kept
	drainWait    = 5 * time.Second
)

// ExitError reports a git that failed.
type ExitError struct {
	// Command is the subcommand, Code the exit code, -1 for a signal.
	Command string
	Code    int
	// Stderr is the beginning of what it said.
	Stderr string
}

func (e *ExitError) Error() string {
	text := strings.TrimSpace(e.Stderr)
	if text == "" {
		text = "it said nothing"
	}
	return fmt.Sprintf("git %s: exit code %d: %s", e.Command, e.Code, text)
}

// LimitError reports a git that was killed because it printed too much.
type LimitError struct {
	Command string
	// Limit is in bytes.
	Limit int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("git %s: more than %d bytes of output", e.Command, e.Limit)
}

// subcommand is the first argument that is no option of git itself.
func subcommand(args []string) string {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-C" || args[i] == "-c":
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args[i]
		}
	}
	return strings.Join(args, " ")
}

// Run runs git and returns what it printed. When it returns, no process of the call is left. Errors: *ExitError,
// *LimitError, and those of starting a process, of ctx and of c.To.
func (p *Program) Run(ctx context.Context, c Call) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.Limit == 0 {
		c.Limit = defaultLimit
	}
	cmd := exec.Command(p.path, p.args(c)...)
	cmd.Dir, cmd.Env = p.home, p.env(c)
	ownGroup(cmd)
	end := func() error { return nil }
	if c.Lock != "" {
		lock, err := take(c.Lock)
		if err != nil {
			return nil, err
		}
		defer lock.Close()
		cmd.ExtraFiles = []*os.File{lock}
		// Our own descriptor shares the lock with the children: it must be closed to see whether one is left.
		end = func() error { return closeAndEnd(lock, c.Lock) }
	}
	return p.run(ctx, cmd, c, end)
}

// run is Run for a command that is ready; end ends the processes that have left the group.
func (p *Program) run(ctx context.Context, cmd *exec.Cmd, c Call, end func() error) ([]byte, error) {
	name := subcommand(c.Args)
	out, outTo, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	complaint, complaintTo, err := os.Pipe()
	if err != nil {
		outTo.Close()
		return nil, err
	}
	defer complaint.Close()
	cmd.Stdout, cmd.Stderr = outTo, complaintTo
	in, err := feed(cmd, c.Stdin)
	if err == nil {
		err = cmd.Start()
	}
	outTo.Close()
	complaintTo.Close()
	in.started(err)
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", name, err)
	}
	// kill ends the group. It is called before the head is reaped, because its number is free afterwards.
	var once sync.Once
	kill := func() { once.Do(func() { killGroup(cmd.Process.Pid) }) }
	stop := context.AfterFunc(ctx, kill)
	stdout := &bounded{limit: c.Limit, full: kill}
	stderr := &bounded{limit: maxComplaint}
	var readers sync.WaitGroup
	var toErr error
	readers.Go(func() {
		if c.To == nil {
			_, _ = io.Copy(stdout, out)
		} else if toErr = pass(c.To, late{out}); toErr != nil {
			kill()
		}
	})
	readers.Go(func() { _, _ = io.Copy(stderr, complaint) })
	waitErr := wait(cmd, kill)
	stop()
	in.stop()
	endErr := end()
	drain(&readers, out, complaint)
	switch exit := (*exec.ExitError)(nil); {
	case endErr != nil:
		return nil, endErr
	case ctx.Err() != nil:
		return nil, fmt.Errorf("git %s: %w", name, ctx.Err())
	case stdout.over:
		return nil, &LimitError{name, c.Limit}
	case toErr != nil:
		return nil, fmt.Errorf("git %s: pass on its output: %w", name, toErr)
	case errors.As(waitErr, &exit):
		return nil, &ExitError{Command: name, Code: exit.ExitCode(), Stderr: stderr.buf.String()}
	case waitErr != nil:
		return nil, fmt.Errorf("git %s: %w", name, waitErr)
	}
	return stdout.buf.Bytes(), nil
}

// pass copies an output. A taker that panics is one that fails: nobody else would recover that here.
func pass(to io.Writer, from io.Reader) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	_, err = io.Copy(to, from)
	return err
}

// drain waits for the readers. A process that left the group may hold a pipe open, and then it is given up.
func drain(readers *sync.WaitGroup, pipes ...*os.File) {
	for _, p := range pipes {
		_ = p.SetReadDeadline(time.Now().Add(drainWait))
	}
	readers.Wait()
}

// late reads what is left of an output when its process has ended. What takes it may be slow, so that each read has its
// own time.
type late struct{ from *os.File }

func (l late) Read(b []byte) (int, error) {
	n, err := l.from.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = l.from.SetReadDeadline(time.Now().Add(drainWait))
		n, err = l.from.Read(b)
	}
	return n, err
}

// input copies a reader into the standard input of a process.
type input struct {
	from     io.Reader
	to, ours *os.File
	done     chan struct{}
}

func feed(cmd *exec.Cmd, from io.Reader) (*input, error) {
	if from == nil {
		return nil, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin = r
	return &input{from: from, to: r, ours: w, done: make(chan struct{})}, nil
}

// started begins to copy, or gives up if the process did not start.
func (in *input) started(err error) {
	if in == nil {
		return
	}
	in.to.Close()
	if err != nil {
		in.ours.Close()
		close(in.done)
		return
	}
	go func() {
		defer close(in.done)
		// A process that does not read all of it says by its exit code whether that is wrong.
		_, _ = io.Copy(in.ours, in.from)
		in.ours.Close()
	}()
}

func (in *input) stop() {
	if in == nil {
		return
	}
	in.ours.Close()
	<-in.done
}

// bounded keeps up to limit bytes, drops the rest and calls full once.
type bounded struct {
	buf   bytes.Buffer
	limit int64
	over  bool
	full  func()
}

func (b *bounded) Write(data []byte) (int, error) {
	room := b.limit - int64(b.buf.Len())
	if int64(len(data)) <= room {
		return b.buf.Write(data)
	}
	b.buf.Write(data[:room])
	if !b.over && b.full != nil {
		b.full()
	}
	b.over = true
	return len(data), nil
}

// args puts the options that every call gets before those of the call.
func (p *Program) args(c Call) []string {
	if c.Args[0] == "version" || c.Args[0] == "--exec-path" {
		return c.Args
	}
	out := []string{"--no-pager", "--literal-pathspecs", "--no-optional-locks"}
	for _, set := range []string{
		"core.hooksPath=" + p.home, "core.fsmonitor=", "core.untrackedCache=false", "core.askPass=", "credential.helper=",
		"protocol.allow=never", "gc.auto=0", "maintenance.auto=false", "submodule.recurse=false", "core.preloadIndex=false",
		"advice.detachedHead=false",
	} {
		out = append(out, "-c", set)
	}
	return append(out, c.Args...)
}

// env is the closed environment and what the call adds.
func (p *Program) env(c Call) []string {
	path := p.search
	if c.Programs {
		path += ":/usr/local/bin:/usr/bin:/bin"
	}
	return append([]string{
		"PATH=" + path, "HOME=" + p.home, "XDG_CONFIG_HOME=" + p.home, "TMPDIR=" + os.TempDir(), "LC_ALL=C", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=", "GIT_PAGER=cat",
		"GIT_EDITOR=false", "GIT_ASKPASS=", "SSH_ASKPASS=", "GIT_SSH_COMMAND=false", "GIT_ADVICE=0",
	}, c.Env...)
}
