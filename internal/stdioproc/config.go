package stdioproc

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/assent-dev/assent/fault"
)

// Config says what to start and with what.
type Config struct {
	// Command is the program and its arguments. A program without a slash is searched in the PATH that it will get; one
	// that is relative is relative to the folder of the worker, never to Dir, which may be a tree that agents write to.
	Command []string
	// Env is added to the closed environment and wins over it.
	Env map[string]string
	// PassEnv names variables of the worker that are passed on, if they are set.
	PassEnv []string
	// Dir is the working directory; empty is that of the worker.
	Dir string
	// Grace is how long Close waits after closing stdin, and again after asking the tree to stop; zero means 2 s.
	Grace time.Duration
	// Log gets each line of stderr at debug level, as Hide leaves it. Nil is no log, and nothing that is hidden.
	Log  *slog.Logger
	Hide func(line string) string
}

const defaultGrace = 2 * time.Second

// defaultPath is the PATH of a program whose worker has none.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// Look checks what can be known without starting anything and returns the absolute path of the program. Errors are
// *fault.ConfigError with key command, dir, env or passEnv.
func (c Config) Look() (string, error) {
	if len(c.Command) == 0 || c.Command[0] == "" {
		return "", fault.Configf("command", "no program is named")
	}
	for _, arg := range c.Command {
		if strings.ContainsRune(arg, 0) {
			return "", fault.Configf("command", "%.60q holds a NUL character", arg)
		}
	}
	for name, value := range c.Env {
		if !validName(name) || strings.ContainsRune(value, 0) {
			return "", fault.Configf("env", "%.60q cannot be an environment variable", name)
		}
	}
	for _, name := range c.PassEnv {
		if !validName(name) {
			return "", fault.Configf("passEnv", "%.60q cannot be an environment variable", name)
		}
	}
	if c.Dir != "" {
		switch info, err := os.Stat(c.Dir); {
		case err != nil:
			return "", &fault.ConfigError{Key: "dir", Msg: "cannot be used", Cause: err}
		case !info.IsDir():
			return "", fault.Configf("dir", "%q is no directory", c.Dir)
		}
	}
	return look(c.Command[0], variable(c.environ(), "PATH"))
}

func validName(name string) bool { return name != "" && !strings.ContainsAny(name, "=\x00") }

// look finds a program, in path if its name has no slash.
func look(program, path string) (string, error) {
	if strings.ContainsRune(program, '/') || filepath.IsAbs(program) || filepath.Base(program) != program {
		abs, err := filepath.Abs(program)
		if err == nil {
			abs, err = executable(abs)
		}
		if err != nil {
			return "", &fault.ConfigError{Key: "command", Msg: fmt.Sprintf("%q cannot be started", program), Cause: err}
		}
		return abs, nil
	}
	var looked []string
	var denied error
	for _, dir := range filepath.SplitList(path) {
		// A relative folder would be another one for each working directory.
		if !filepath.IsAbs(dir) {
			continue
		}
		looked = append(looked, dir)
		found, err := executable(filepath.Join(dir, program))
		if err == nil {
			return found, nil
		}
		if !os.IsNotExist(err) && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", &fault.ConfigError{Key: "command", Msg: fmt.Sprintf("%q cannot be started", program), Cause: denied}
	}
	return "", fault.Configf("command", "there is no program %q in the PATH of the worker: %s",
		program, strings.Join(looked, string(filepath.ListSeparator)))
}

// environ is the closed environment, sorted.
func (c Config) environ() []string {
	set := map[string]string{}
	for _, entry := range os.Environ() {
		name, value, ok := strings.Cut(entry, "=")
		if ok && name != "" && (passed(name) || slices.ContainsFunc(c.PassEnv, func(n string) bool { return sameName(n, name) })) {
			set[name] = value
		}
	}
	for name, value := range c.Env {
		for other := range set {
			if sameName(other, name) {
				delete(set, other)
			}
		}
		set[name] = value
	}
	out := make([]string, 0, len(set)+1)
	path := false
	for name, value := range set {
		if sameName(name, "PATH") && value == "" {
			continue
		}
		path = path || sameName(name, "PATH")
		out = append(out, name+"="+value)
	}
	if !path {
		out = append(out, "PATH="+defaultPath)
	}
	slices.Sort(out)
	return out
}

// variable is the value of a variable in an environment.
func variable(environ []string, name string) string {
	for _, entry := range environ {
		if n, value, ok := strings.Cut(entry, "="); ok && sameName(n, name) {
			return value
		}
	}
	return ""
}
