package demo_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/model/modeltest"
	"github.com/assent-dev/assent/model/scripted"
)

// With --model the work is a model's of a provider; here it says over the wire what the sample's script would. The key
// stands in the environment and nowhere else.
func TestARealModel(t *testing.T) {
	script, err := scripted.Load("script.yaml")
	require.NoError(t, err)
	for _, c := range []struct {
		api  modeltest.API
		name string
	}{{modeltest.Messages, "anthropic:claude-some"}, {modeltest.Chat, "openai:some:8b"}} {
		t.Run(string(c.api), func(t *testing.T) {
			s := newStage(t)
			s.env = append(s.env[:len(s.env):len(s.env)], "DEMO_MODEL_KEY="+modeltest.Key+"\n")
			server := modeltest.Serve(t, c.api, script)
			got := s.run(0, "", "demo", "--yes", "--keep", "--model", c.name, "--base-url", server.URL, "--key-env", "DEMO_MODEL_KEY")
			require.Contains(t, got.err.String(), c.name+"; what the agent reads is sent to "+server.URL)
			require.Contains(t, got.out.String(), c.name+" · 1377 tokens in, 44 out")
			require.Len(t, server.Bodies(), 6)
			s.applies()
			require.NotContains(t, got.all(), modeltest.Key)
			require.NoError(t, filepath.WalkDir(s.home, func(path string, e os.DirEntry, err error) error {
				if err != nil || !e.Type().IsRegular() {
					return err
				}
				b, err := os.ReadFile(path)
				require.NotContains(t, string(b), modeltest.Key, path)
				return err
			}))
		})
	}
}
