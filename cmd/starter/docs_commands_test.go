package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var starterWords = regexp.MustCompile("starter((?: +[a-z]+| +--[a-z-]+)+)")

// Every command and flag of starter that the pages name is one.
func TestCommandsOfThePages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	require.NoError(t, err)
	found := 0
	for _, page := range append(pages, filepath.Join("..", "..", "README.md"), filepath.Join("..", "..", "ARCHITECTURE.md")) {
		b, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, code := range codeOf(string(b)) {
			for _, m := range starterWords.FindAllStringSubmatch(code, -1) {
				words := strings.Fields(m[1])
				cmd, _, err := (&app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}).root().Find(words)
				require.NoError(t, err, "%s: %s", page, m[0])
				require.True(t, cmd.HasParent() || strings.HasPrefix(words[0], "-"), "%s: %s", page, m[0])
				for _, w := range words {
					if name, ok := strings.CutPrefix(w, "--"); ok && name != "help" {
						require.True(t, cmd.Flags().Lookup(name) != nil || cmd.InheritedFlags().Lookup(name) != nil, "%s: %s", page, m[0])
					}
				}
				found++
			}
		}
	}
	require.Greater(t, found, 50)
}

// codeOf are the lines of code blocks and the inline code of a page.
func codeOf(page string) []string {
	var code []string
	for i, part := range strings.Split(page, "```") {
		if i%2 == 1 {
			code = append(code, strings.Split(part, "\n")...)
			continue
		}
		for j, in := range strings.Split(part, "`") {
			if j%2 == 1 {
				code = append(code, strings.ReplaceAll(in, "\n", " "))
			}
		}
	}
	return code
}
