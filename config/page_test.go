package config_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
)

// What docs/models.md shows is read as it stands there.
func TestModelsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/models.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 1)
	f, err := config.Parse("assent.yaml", []byte(blocks[0][1]))
	require.NoError(t, err)
	require.Equal(t, []string{"anthropic", "gateway", "ollama", "openai"}, f.ProviderNames())
}
