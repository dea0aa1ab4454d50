package workerproc_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
)

// What is wrong with a provider is said at start, with its place and without the key.
func TestBadProviders(t *testing.T) {
	t.Setenv("WORKER_KEY", "sk-geheim\nsk-zwei")
	keys := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(keys, []byte("sk geheim"), 0o600))
	for want, section := range map[string]string{
		"assent.yaml:5:12: models.openai.keyEnv: the environment variable NO_SUCH_KEY is not set": "openai: {keyEnv: NO_SUCH_KEY}",
		"models.openai.keyEnv: the environment variable WORKER_KEY holds more than one line":      "openai: {keyEnv: WORKER_KEY}",
		"models.openai.keyFile: the file " + keys + " holds a space or another character":         "openai: {keyFile: " + keys + "}",
		"models.openai.keyFile: the file " + keys + "x cannot be read: no such file":              "openai: {keyFile: " + keys + "x}",
		"assent.yaml:5:21: models.openai.baseURL: \"localhost:1\" has no scheme":                  "openai: {baseURL: 'localhost:1'}",
		`unknown model "openai:gpt-9"; one of gpt-5`:                                              "openai: {baseURL: 'http://localhost:1', models: [gpt-5]}",
		`unknown provider "openai" in "openai:gpt-9"; one of anthropic, scripted`:                 "anthropic: {baseURL: 'http://localhost:1'}",
	} {
		text := strings.Replace(strings.Replace(minimal, "scripted:s", "openai:gpt-9", 1), "models: {", "models:\n  "+section+"\n  ", 1)
		text = strings.Replace(text, "}}\nworker", "}\nworker", 1)
		path := write(t, text)
		err := workerproc.Run(t.Context(), workerproc.Options{Config: path, Connect: connect.Settings{Address: devservertest.Server(t).Address(), Alone: true}}, io.Discard)
		require.ErrorContains(t, err, strings.Replace(want, "assent.yaml:5:12", "assent.yaml:5:20", 1), text)
		require.Equal(t, exit.Usage, exit.CodeOf(err), "%v", err)
		require.NotContains(t, err.Error(), "geheim")
	}
}

func TestOffers(t *testing.T) {
	f, err := config.Parse("assent.yaml", []byte(`
profiles:
  a: {model: ["anthropic:claude-opus-5", "anthropic:claude-new"]}
  b: {model: ["ollama:qwen3:8b", "scripted:s", "gateway:x"]}
models:
  scripted: {scripts: {s: s.yaml}}
  anthropic: {keyEnv: NO_SUCH_KEY}
  prices: {"ollama:qwen3:8b": {free: true, contextWindow: 40960}}
  others:
    ollama: {api: chat, baseURL: "http://127.0.0.1:11434/v1", models: ["qwen3:8b"]}
`))
	require.NoError(t, err)
	offers := workerproc.Offers(f)
	require.Len(t, offers, 3)
	claude, ollama, scripts := offers[0], offers[1], offers[2]
	require.Equal(t, "$NO_SUCH_KEY", claude.Key)
	require.Contains(t, claude.KeyProblem, "is not set")
	require.Equal(t, "https://api.anthropic.com", claude.BaseURL)
	require.True(t, claude.Any)
	seen := map[string]workerproc.Offer{}
	for _, p := range offers {
		for _, m := range p.Models {
			require.True(t, strings.HasPrefix(m.Name, p.Name+":"), m.Name)
			seen[m.Name] = m
		}
	}
	require.Equal(t, []string{"a"}, seen["anthropic:claude-opus-5"].Profiles)
	require.True(t, seen["anthropic:claude-opus-5"].Known)
	require.False(t, seen["anthropic:claude-new"].Known)
	require.Empty(t, seen["anthropic:claude-haiku-4-5"].Profiles)
	require.Equal(t, "ollama:qwen3:8b", ollama.Models[0].Name)
	require.True(t, ollama.Models[0].Price.Free)
	require.Empty(t, ollama.Key)
	require.Len(t, scripts.Models, 1)
	require.NotContains(t, seen, "gateway:x")
}
