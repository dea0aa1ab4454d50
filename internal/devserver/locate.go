package devserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// modulePath is the module whose root holds devserver/ and temporal-dev.yaml.
	modulePath = "github.com/assent-dev/assent"
	// choiceVariable chooses the program: `build`, a path, or empty for whatever is there.
	choiceVariable = "ASSENT_DEVSERVER"
	// configVariable tells our own program where temporal-dev.yaml is; the Temporal command does not read it.
	configVariable = "TEMPORAL_DEV_CONFIG"
	// probeWithin bounds `--version`, which takes a tenth of a second.
	probeWithin = 30 * time.Second
)

// Options says how Locate reports what it does.
type Options struct {
	// Progress gets lines for people while a server is being built or waited for: one at once, then one every ten
	// seconds, or one that is rewritten every second if it is a terminal. Nil discards them.
	Progress io.Writer
}

// Binary is a program that can be started with Start.
type Binary struct {
	// Path is the program file.
	Path string
	// Version is what it says of itself, for example `temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)`.
	Version string
	// Config is the temporal-dev.yaml that our own program is to read; empty if it is to look for itself.
	Config string
}

// NotFoundError reports that there is no server program and that none can be built here. Trying again without a
// change on the machine cannot help.
type NotFoundError struct {
	// Reason says what was missing.
	Reason string
	// Hint says what to do.
	Hint string
	// Cause is the error underneath, or nil.
	Cause error
}

func (e *NotFoundError) Error() string {
	msg := "find a Temporal development server: " + e.Reason
	if e.Cause != nil {
		msg += ": " + e.Cause.Error()
	}
	return msg
}

// Unwrap returns the cause.
func (e *NotFoundError) Unwrap() error { return e.Cause }

const installHint = "install the Temporal command (https://docs.temporal.io/cli) so that `temporal` is on PATH"

// Locate returns a server program: `temporal` on PATH if it answers sensibly, else the nested module's, which is
// compiled first if this machine has not done so. Many processes may call it at the same time; one of them builds.
//
// The first build takes minutes. Ending ctx ends it, and the next call goes on where it stopped.
// Errors are *NotFoundError, *BuildError, or that of ctx.
func Locate(ctx context.Context, o Options) (Binary, error) {
	l := locator{
		choice:   os.Getenv(choiceVariable),
		config:   os.Getenv(configVariable),
		cacheDir: os.UserCacheDir,
		root:     moduleRoot,
		progress: newProgress(o.Progress),
	}
	return l.locate(ctx)
}

// locator is Locate with the machine it looks at.
type locator struct {
	choice, config string
	cacheDir       func() (string, error)
	root           func(context.Context) (string, error)
	progress       *progress
}

func (l *locator) locate(ctx context.Context) (Binary, error) {
	switch l.choice {
	case "":
		if path, err := exec.LookPath("temporal"); err == nil {
			if version, err := probe(ctx, path); err == nil && strings.HasPrefix(version, commandPrefix) {
				return Binary{Path: path, Version: version}, nil
			}
		}
		return l.built(ctx)
	case "build":
		return l.built(ctx)
	}
	version, err := probe(ctx, l.choice)
	if err != nil {
		return Binary{}, &NotFoundError{
			Reason: fmt.Sprintf("%s=%s", choiceVariable, l.choice), Cause: err,
			Hint: "let it name a Temporal command or a devserver, or unset it",
		}
	}
	b := Binary{Path: l.choice, Version: version, Config: l.config}
	if root, err := l.root(ctx); err == nil && b.Config == "" {
		b.Config = filepath.Join(root, "temporal-dev.yaml")
	}
	return b, nil
}

// built returns the nested module's program, from the cache or compiled now.
func (l *locator) built(ctx context.Context) (Binary, error) {
	root, err := l.root(ctx)
	if err != nil {
		return Binary{}, err
	}
	b, err := l.cached(ctx, filepath.Join(root, "devserver"))
	if err != nil {
		return Binary{}, err
	}
	b.Config = l.config
	if b.Config == "" {
		b.Config = filepath.Join(root, "temporal-dev.yaml")
	}
	return b, nil
}

const (
	// commandPrefix begins the version line of the real Temporal command, oursPrefix that of the nested module.
	commandPrefix = "temporal version "
	oursPrefix    = "assent devserver "
)

// probe runs `path --version` and returns its first line, if that is one of a program we know.
func probe(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if !strings.HasPrefix(line, commandPrefix) && !strings.HasPrefix(line, oursPrefix) {
		return "", fmt.Errorf("%s --version: neither a Temporal command nor a devserver: %.80q", path, line)
	}
	return line, nil
}

// IsNotFound reports whether err is or wraps a NotFoundError.
func IsNotFound(err error) bool {
	var n *NotFoundError
	return errors.As(err, &n)
}
