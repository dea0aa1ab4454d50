package modeltest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/anthropic"
	"github.com/assent-dev/assent/model/endpoint"
	"github.com/assent-dev/assent/model/modeltest"
	"github.com/assent-dev/assent/model/scripted"
)

// A test of whatever uses a driver: the provider is on loopback and says what a script says.
func Example() {
	_ = func(t *testing.T) {
		script, err := scripted.Parse("hello.yaml", []byte("turns: [{say: Hello.}]"))
		require.NoError(t, err)
		t.Setenv("TEST_KEY", modeltest.Key)
		server := modeltest.Serve(t, modeltest.Messages, script)
		m, err := anthropic.New(anthropic.Config{Endpoint: endpoint.Config{BaseURL: server.URL, Key: endpoint.Key{Env: "TEST_KEY"}}})
		require.NoError(t, err)
		turn, err := m.Generate(t.Context(), model.Request{Model: "claude-opus-5", Messages: []model.Message{{Role: model.User, Text: "hi"}}})
		require.NoError(t, err)
		require.Equal(t, "Hello.", turn.Text)
	}
	// Output:
}
