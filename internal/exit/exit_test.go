package exit_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/exit"
)

func TestReport(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code int
		text string
	}{
		"nothing":        {nil, exit.OK, ""},
		"plain":          {errors.New("no"), exit.Failed, "error: no\n"},
		"config":         {fmt.Errorf("load: %w", fault.Configf("a.b", "is bad")), exit.Usage, "error: load: a.b: is bad\n"},
		"excerpt":        {&fault.ConfigError{Msg: "bad", Excerpt: "> 1 | x\n"}, exit.Usage, "error: bad\n> 1 | x\n"},
		"usage":          {exit.Usagef("try this", "what is %q", "x"), exit.Usage, "error: what is \"x\"\nhint: try this\n"},
		"several lines":  {exit.Failf("", "these:\na\nb\n"), exit.Failed, "error: these:\n  a\n  b\n"},
		"escapes":        {exit.Failf("a\u202eb", "a\x1b[31m\tb\r\nc"), exit.Failed, "error: a\\u001b[31m\tb\\u000d\n  c\nhint: a\\u202eb\n"},
		"long excerpt":   {&fault.ConfigError{Msg: "bad", Excerpt: strings.Repeat("é", 161) + "\n^\n"}, exit.Usage, "error: bad\n" + strings.Repeat("é", 160) + "…\n^\n"},
		"code alone":     {exit.Code(exit.Suspended), exit.Suspended, ""},
		"hint of config": {exit.WithHint(fault.Configf("k", "is bad"), "mend it"), exit.Usage, "error: k: is bad\nhint: mend it\n"},
		"hint stays":     {exit.WithHint(exit.Failf("first", "x"), "second"), exit.Failed, "error: x\nhint: first\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.Equal(t, c.code, exit.Report(&out, c.err))
			require.Equal(t, c.text, out.String())
		})
	}
	require.NoError(t, exit.Code(exit.OK))
	require.NoError(t, exit.WithHint(nil, "x"))
}
