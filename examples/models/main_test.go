package main

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/model/modeltest"
	"github.com/assent-dev/assent/model/scripted"
)

func TestRun(t *testing.T) {
	t.Setenv("EXAMPLE_KEY", modeltest.Key)
	script, err := scripted.Parse("s.yaml", []byte("turns: [{say: Because some acts cannot be undone., usage: {inputTokens: 12, outputTokens: 9}}]"))
	require.NoError(t, err)
	for _, api := range modeltest.APIs {
		server := modeltest.Serve(t, api, script)
		server.Fail(modeltest.Status(http.StatusTooManyRequests, api, "rate_limit_error", "slow down", "Retry-After", "3"))
		args := []string{"-api", string(api), "-base-url", server.URL, "-key-env", "EXAMPLE_KEY", "-model", "some"}
		var out, errs bytes.Buffer
		require.Equal(t, 1, run(t.Context(), args, nil, &out, &errs))
		require.Equal(t, "error: model: rate_limit: status 429: slow down\nhint: it may pass; after 3s\n", errs.String())
		require.Equal(t, 0, run(t.Context(), args, nil, &out, &errs))
		require.Equal(t, "Because some acts cannot be undone.\n12 tokens in (0 cached), 9 out\n", out.String())
	}
	var out, errs bytes.Buffer
	require.Equal(t, 2, run(t.Context(), []string{"-base-url", "h"}, nil, &out, &errs))
	require.Contains(t, errs.String(), "has no scheme http or https")
}
