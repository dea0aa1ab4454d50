package endpoint_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/endpoint"
)

const key = "sk-123-geheim"

func TestKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	for name, c := range map[string]struct{ text, want, says string }{
		"plain":             {key, key, ""},
		"with a newline":    {key + "\n", key, ""},
		"of Windows":        {key + "\r\n", key, ""},
		"two lines":         {key + "\n" + key, "", "holds more than one line; a key is one"},
		"a newline first":   {"\n" + key, "", "holds more than one line; a key is one"},
		"empty":             {"\n", "", "is empty"},
		"with a space":      {"Bearer " + key, "", "holds a space or another character that no key has"},
		"with a control":    {key + "\x00", "", "holds a space or another character that no key has"},
		"with an umlaut":    {"schlüssel", "", "holds a space or another character that no key has"},
		"of a million":      {strings.Repeat("k", 1<<20), "", "holds more than 16384 bytes; that is no key"},
		"with a byte order": {"\ufeff" + key, key, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
			keys := []endpoint.Key{{File: file}}
			if !strings.Contains(c.text, "\x00") && name != "with a byte order" {
				t.Setenv("ENDPOINT_KEY", c.text)
				keys = append(keys, endpoint.Key{Env: "ENDPOINT_KEY"})
			}
			for _, k := range keys {
				got, err := k.Read()
				require.Equal(t, c.want, got.Reveal())
				if c.says == "" {
					require.NoError(t, err)
					continue
				}
				require.True(t, fault.IsConfig(err), "%v", err)
				require.ErrorContains(t, err, c.says)
				require.NotContains(t, err.Error(), "geheim")
				require.NotContains(t, err.Error(), "sch")
			}
		})
	}
	_, err := endpoint.Key{Env: "ENDPOINT_NO_KEY"}.Read()
	require.ErrorContains(t, err, "keyEnv: the environment variable ENDPOINT_NO_KEY is not set")
	_, err = endpoint.Key{File: file + "x"}.Read()
	require.ErrorContains(t, err, "keyFile: the file "+file+"x cannot be read: no such file")
	_, err = endpoint.Key{File: file, Env: "X"}.Read()
	require.ErrorContains(t, err, "both set")
	none, err := endpoint.Key{}.Read()
	require.NoError(t, err)
	require.Empty(t, none.Reveal())
}

func TestASecretDoesNotShow(t *testing.T) {
	t.Setenv("ENDPOINT_KEY", key)
	s, err := endpoint.Key{Env: "ENDPOINT_KEY"}.Read()
	require.NoError(t, err)
	raw, err := json.Marshal(map[string]any{"a": s})
	require.NoError(t, err)
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v %s %q %x %d", s, s, s, s, s, s), fmt.Sprintf("%+v", struct{ Key endpoint.Secret }{s}), string(raw)} {
		require.NotContains(t, text, key)
		require.NotContains(t, text, fmt.Sprintf("%x", key))
	}
}

func TestBaseURLs(t *testing.T) {
	for text, says := range map[string]string{
		"https://api.example.com/v1":    "",
		"http://127.0.0.1:11434/v1/":    "",
		"http://[::1]:8000":             "",
		"":                              "is missing",
		"api.example.com/v1":            "has no scheme http or https",
		"localhost:11434":               "has no scheme http or https",
		"127.0.0.1:11434/v1":            "has no scheme http or https",
		"ftp://x":                       "has no scheme http or https",
		"https://":                      "has no host",
		"https:///v1":                   "has no host",
		"https://user:geheim@x/v1":      "holds a user or password",
		"user:geheim@x/v1":              "has no scheme",
		"https:user:geheim@x/v1":        "has no host",
		"https://x/v1?api-version=1":    "has a query or fragment",
		"https://x/v1#":                 "has a query or fragment",
		"https://x/ v1":                 "holds a space",
		"https://x:port/v1":             "is no URL",
		"https://x/v1\nAuthorization: ": "holds a space",
	} {
		_, err := endpoint.BaseURL(text)
		if says == "" {
			require.NoError(t, err)
			continue
		}
		require.True(t, fault.IsConfig(err), "%q: %v", text, err)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "geheim")
	}
}

func TestNew(t *testing.T) {
	good := endpoint.Config{BaseURL: "https://x/v1", Auth: endpoint.Bearer}
	e, err := endpoint.New(good)
	require.NoError(t, err)
	require.Equal(t, "https://x/v1/", e.BaseURL())
	for says, change := range map[string]func(*endpoint.Config){
		"auth: unknown way":                       func(c *endpoint.Config) { c.Auth = "basic" },
		"baseURL: is missing":                     func(c *endpoint.Config) { c.BaseURL = "" },
		"keyEnv: the environment variable NOT_ME": func(c *endpoint.Config) { c.Key.Env = "NOT_ME" },
		"headers.Authorization: is not set here":  func(c *endpoint.Config) { c.Headers = map[string]string{"Authorization": "x"} },
		"headers.X-A: holds a control":            func(c *endpoint.Config) { c.Headers = map[string]string{"X-A": "a\r\nb"} },
		`headers: "X A" is no name`:               func(c *endpoint.Config) { c.Headers = map[string]string{"X A": "a"} },
		"timeout: is negative":                    func(c *endpoint.Config) { c.Timeout = -1 },
	} {
		c := good
		change(&c)
		_, err := endpoint.New(c)
		require.True(t, fault.IsConfig(err), "%s: %v", says, err)
		require.ErrorContains(t, err, says)
	}
	azure := good
	azure.BaseURL = "https://team.openai.azure.com/openai/v1"
	e, err = endpoint.New(azure)
	require.NoError(t, err)
	require.True(t, e.Host("azure.com"))
	require.False(t, e.Host("openai.com"))
	require.False(t, e.Host("re.com"))
}

func TestWordsOfProviders(t *testing.T) {
	for body, want := range map[string]struct {
		kind  string
		retry bool
	}{
		`{"type":"error","error":{"type":"overloaded_error","message":"x"}}`:                                                {endpoint.KindOverloaded, true},
		`{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"ramp_limit_exceeded"}}}`: {endpoint.KindRateLimit, true},
		`{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}`:                                 {endpoint.KindBilling, false},
		`{"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}}`:                         {model.KindTooLong, false},
		`{"object":"error","message":"This model's maximum context length is 4096","type":"invalid_request_error"}`:         {model.KindTooLong, false},
		`{"error":{"message":"x","type":"invalid_request_error","code":"invalid_encrypted_content"}}`:                       {endpoint.KindStale, false},
		`{"error":"something"}`:  {endpoint.KindServer, true},
		`{"detail":"Not Found"}`: {endpoint.KindServer, true},
		`nonsense`:               {endpoint.KindServer, true},
	} {
		e := endpoint.Classify(endpoint.Parse([]byte(body)))
		require.Equal(t, want.kind, e.Kind, body)
		require.Equal(t, want.retry, e.Retry, body)
	}
}

// Ollama calls every failure an api_error, also that a model has no tools: such a word says less than the status.
func TestAWordThatSaysNothing(t *testing.T) {
	for _, word := range []string{"api_error", "server_error", "internal_server_error"} {
		f := endpoint.Parse([]byte(`{"error":{"message":"gemma:2b does not support tools","type":"` + word + `","param":null,"code":null}}`))
		f.Status = http.StatusBadRequest
		e := endpoint.Classify(f)
		require.Equal(t, endpoint.KindBadRequest, e.Kind, word)
		require.False(t, e.Retry)
	}
	e := endpoint.Classify(endpoint.Failure{Status: http.StatusBadRequest, Words: []string{"rate_limit_exceeded"}})
	require.Equal(t, endpoint.KindRateLimit, e.Kind)
	require.True(t, e.Retry)
}

// A provider that wants to be asked again says after how long, whatever the status.
func TestShouldRetryWaits(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusTooManyRequests} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Should-Retry", "true")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"error":{"message":"later","type":"overloaded_error"}}`)
		}))
		e, err := endpoint.New(endpoint.Config{BaseURL: server.URL, Auth: endpoint.Bearer})
		require.NoError(t, err)
		resp, err := e.Client().Get(server.URL)
		server.Close()
		if resp != nil {
			_ = resp.Body.Close()
		}
		var m *model.Error
		require.ErrorAs(t, err, &m)
		require.True(t, m.Retry, status)
		require.Equal(t, 7*time.Second, m.After, status)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"error":{"type":7,"code":null}}`), 429)
	f.Add([]byte(`{"error":[],"message":{}}`), 200)
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		failure := endpoint.Parse(body)
		failure.Status = status
		require.NotEmpty(t, endpoint.Classify(failure).Kind)
	})
}

// A key file is read for each request, and a file that is away for a moment is no reason to give up.
func TestAKeyIsReplaced(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("X-Api-Key")+r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "text/event-stream")
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte("one\n"), 0o600))
	e, err := endpoint.New(endpoint.Config{BaseURL: server.URL, Auth: endpoint.XAPIKey, Key: endpoint.Key{File: file}})
	require.NoError(t, err)
	post := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.BaseURL(), strings.NewReader("{}"))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer what an SDK found")
		resp, err := e.Client().Do(r)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	require.NoError(t, post())
	require.NoError(t, os.WriteFile(file, []byte("two"), 0o600))
	require.NoError(t, post())
	require.NoError(t, os.Remove(file))
	var m *model.Error
	require.ErrorAs(t, post(), &m)
	require.Equal(t, endpoint.KindAuthentication, m.Kind)
	require.True(t, m.Retry)
	require.Equal(t, []string{"one", "two"}, got)
}
