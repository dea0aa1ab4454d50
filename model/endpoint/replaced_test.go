package endpoint_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/model/endpoint"
)

// A response may quote the key that it was asked with, after the file of the key was replaced, or is gone.
func TestAReplacedKeyStaysHidden(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "key")
	e := func() *endpoint.Endpoint {
		require.NoError(t, os.WriteFile(file, []byte("old-secret\n"), 0o600))
		e, err := endpoint.New(endpoint.Config{BaseURL: srv.URL, Auth: endpoint.Bearer, Key: endpoint.Key{File: file}})
		require.NoError(t, err)
		return e
	}()
	ask := func() {
		resp, err := e.Client().Get(srv.URL)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	ask()
	require.NoError(t, os.WriteFile(file, []byte("new-secret\n"), 0o600))
	ask()
	require.NoError(t, os.Remove(file))
	require.Equal(t, "keys (secret) and (secret)", e.Clean("keys old-secret and new-secret"))
}
