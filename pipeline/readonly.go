package pipeline

import (
	"context"
	"fmt"

	"github.com/assent-dev/assent/tool"
)

// ReadonlyGuard is the name of the guard that Readonly mounts.
const ReadonlyGuard = "readonly"

// Readonly returns the plugin with the guard that refuses write and destructive tools to calls whose
// isolation is readonly, whatever any hook or listener has allowed.
func Readonly() Plugin {
	return PluginFunc("readonly", func(s *Scope) error {
		return s.Guard(ReadonlyGuard, func(_ context.Context, call Call) error {
			if call.Isolation != "readonly" {
				return nil
			}
			switch call.Info.Risk {
			case tool.Write, tool.Destructive:
				return fmt.Errorf("%s is a %s tool and the isolation is readonly", call.Name, call.Info.Risk)
			}
			return nil
		})
	})
}
