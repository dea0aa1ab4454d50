package approval_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
)

func TestShow(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"object":              {`{"a":1,"b":["x"]}`, "{\n  \"a\": 1,\n  \"b\": [\n    \"x\"\n  ]\n}"},
		"letters of anywhere": {`"é 漢 😀"`, `"é 漢 😀"`},
		"bidi override":       {"\"a\u202eb\"", `"a\u202eb"`},
		"bidi isolate":        {"\"a\u2066b\u2069\"", `"a\u2066b\u2069"`},
		"zero width":          {"\"a\u200bb\u200dc\ufeff\"", `"a\u200bb\u200dc\ufeff"`},
		"other spaces":        {"\"a\u00a0b\u2003c\u2028d\"", `"a\u00a0b\u2003c\u2028d"`},
		"tag characters":      {"\"a\U000e0041\"", `"a\U000e0041"`},
		"variation selectors": {"\"a\ufe00b\U000e0101\"", `"a\ufe00b\U000e0101"`},
		"fillers":             {"\"a\u3164b\u115fc\uffa0d\u2800\"", `"a\u3164b\u115fc\uffa0d\u2800"`},
		"not JSON":            {"rm\x1b[2K -rf\r", `rm\u001b[2K -rf\u000d`},
		"an escape stays one": {`"\u001b"`, `"\u001b"`},
		"empty":               {``, ``},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, approval.Show(json.RawMessage(tc.in), 1000)) })
	}
}

func TestShowSaysWhatIsCut(t *testing.T) {
	in := json.RawMessage(`"` + strings.Repeat("é", 100) + `"`)
	got := approval.Show(in, 21)
	require.True(t, strings.HasPrefix(got, `"éééééééééé`), got)
	require.True(t, strings.HasSuffix(got, "\n… 181 of 202 bytes are not shown"), got)
	require.NotContains(t, approval.Show(in, 202), "not shown")
}
