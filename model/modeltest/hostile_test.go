package modeltest_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/endpoint"
	"github.com/assent-dev/assent/model/modeltest"
)

// hostile asks a server that streams just this.
func hostile(t *testing.T, api modeltest.API, stream string) (model.Response, error) {
	t.Helper()
	t.Setenv("MODELTEST_KEY", modeltest.Key)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, stream)
	}))
	defer server.Close()
	return driver(t, api, at(api, server), nil).Generate(t.Context(), hello)
}

const stopped = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\n" +
	"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

func TestABlockThatIsNull(t *testing.T) {
	for _, block := range []string{"null", "{}"} {
		_, err := hostile(t, modeltest.Messages, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":"+block+"}\n\n"+
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n"+stopped)
		var m *model.Error
		require.ErrorAs(t, err, &m, block)
		require.Equal(t, endpoint.KindBadResponse, m.Kind)
	}
}

// A sum that overflows would be clamped to nothing, and the budget would not count it.
func TestUsageDoesNotOverflow(t *testing.T) {
	const most = "9223372036854775807"
	for _, u := range []string{`"input_tokens":` + most + `,"cache_read_input_tokens":` + most, `"input_tokens":1000,"cache_read_input_tokens":-5000`} {
		r, err := hostile(t, modeltest.Messages, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{"+u+",\"output_tokens\":1}}}\n\n"+stopped)
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.Usage.InputTokens, int64(1000))
	}
}

// Some servers send arguments as an object. It is no call without arguments.
func TestArgumentsThatAreNoText(t *testing.T) {
	for api, stream := range map[modeltest.API]string{
		modeltest.Responses: "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"look\",\"arguments\":{\"n\":1}}]}}\n\n",
		modeltest.Chat:      "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"look\",\"arguments\":{\"n\":1}}}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n",
	} {
		r, err := hostile(t, api, stream)
		require.NoError(t, err, api)
		require.Len(t, r.Calls, 1)
		require.JSONEq(t, `{"n":1}`, string(r.Calls[0].Input), api)
	}
}

// What is no HTTP at all is quoted by the network's error.
func TestABrokenHeaderShowsNoKey(t *testing.T) {
	t.Setenv("MODELTEST_KEY", modeltest.Key)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nno header but "+modeltest.Key+"\r\n\r\n")
			_ = c.Close()
		}
	}()
	_, err = driver(t, modeltest.Chat, "http://"+l.Addr().String()+"/v1", nil).Generate(t.Context(), hello)
	require.Error(t, err)
	require.NotContains(t, err.Error(), modeltest.Key)
}
