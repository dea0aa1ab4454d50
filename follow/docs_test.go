package follow_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/follow"
)

var (
	shown = regexp.MustCompile("(?s)<!-- event (\\S+) (\\S+) -->\n```json\n(.*?)```")
	row   = regexp.MustCompile("(?m)^\\| (`[a-z. `]+`) \\|")
	kind  = regexp.MustCompile("`([a-z.]+)`")
)

// The events that the page shows are those of recorded histories.
func TestThePageShowsRealEvents(t *testing.T) {
	file := filepath.Join("..", "docs", "events.md")
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	n := 0
	want := shown.ReplaceAllFunc(page, func(block []byte) []byte {
		n++
		m := shown.FindSubmatch(block)
		events := of(read(t, string(m[1])), follow.Kind(m[2]))
		require.NotEmpty(t, events, "%s has no %s", m[1], m[2])
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		require.NoError(t, enc.Encode(events[0]))
		return []byte("<!-- event " + string(m[1]) + " " + string(m[2]) + " -->\n```json\n" + b.String() + "```")
	})
	require.Greater(t, n, 5)
	if *update {
		require.NoError(t, os.WriteFile(file, want, 0o644))
		page = want
	}
	require.Equal(t, string(want), string(page), "go test ./follow -update")
}

// It names every kind of event.
func TestThePageNamesEveryKind(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "events.md"))
	require.NoError(t, err)
	named := map[string]bool{}
	for _, r := range row.FindAllStringSubmatch(string(page), -1) {
		for _, k := range kind.FindAllStringSubmatch(r[1], -1) {
			named[k[1]] = true
		}
	}
	source, err := os.ReadFile("event.go")
	require.NoError(t, err)
	all := regexp.MustCompile(`(?m)^\t\w+ +Kind = "([a-z.]+)"`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(all), 20)
	for _, k := range all {
		require.True(t, named[k[1]], "%s is not on the page", k[1])
		require.False(t, strings.Contains(k[1], "_"))
	}
}
