package workerproc

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/tool"
)

// What the file admits is what fetch reaches.
func TestFetchReachesWhatTheFileAdmits(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	for text, want := range map[string]tool.Code{
		"worker: {fetch: {allow: [127.0.0.1]}}": tool.OK, "worker: {fetch: {allow: ['127.0.0.0/8']}}": tool.OK,
		"worker: {fetch: {allow: [10.0.0.0/8]}}": tool.Denied, "worker: {fetch: {}}": tool.Denied, "worker: {}": tool.Denied,
	} {
		f, err := config.Parse("assent.yaml", []byte(text))
		require.NoError(t, err)
		defs, _, err := Tools(f)
		require.NoError(t, err)
		ran := false
		for _, d := range defs {
			if d.Name() == "fetch" {
				ran = true
				input, err := json.Marshal(map[string]string{"url": s.URL})
				require.NoError(t, err)
				require.Equal(t, want, d.Invoke(t.Context(), nil, input).Code, text)
			}
		}
		require.True(t, ran)
	}
}
