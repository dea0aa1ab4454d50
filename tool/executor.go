package tool

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/assent-dev/assent/fault"
)

// A Runner runs the bodies of tools that declare its executor. Run gets arguments that passed Def.Validate and
// returns what the body returned, or an error; body runs it in this process. A panic of either is caught by the caller.
type Runner interface {
	Run(ctx context.Context, info Info, call *Context, input json.RawMessage, body Body) (any, error)
}

// Body is the code of a tool, with its arguments already bound.
type Body func(context.Context) (any, error)

var runners = struct {
	sync.RWMutex
	byName map[string]Runner
}{byName: map[string]Runner{}}

// RegisterExecutor serves the executor name in this process. It is called once per name while the program
// starts, before tools that declare it are defined; a name twice, or a nil runner, is a *fault.ConfigError.
func RegisterExecutor(name string, r Runner) error {
	runners.Lock()
	defer runners.Unlock()
	if name == "" || r == nil {
		return fault.Configf("executor", "needs a name and a runner")
	}
	if _, taken := runners.byName[name]; taken || name == InProcess {
		return fault.Configf("executor", "%q is registered already", name)
	}
	runners.byName[name] = r
	return nil
}

// runnerOf returns the runner of an executor, nil for the body's own process, or the names that are served.
func runnerOf(name string) (r Runner, served []string) {
	if name == "" || name == InProcess {
		return nil, nil
	}
	runners.RLock()
	defer runners.RUnlock()
	if r, ok := runners.byName[name]; ok {
		return r, nil
	}
	served = []string{InProcess}
	for n := range runners.byName {
		served = append(served, n)
	}
	slices.Sort(served[1:])
	return nil, served
}
