package cassette_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/cassette"
	"github.com/assent-dev/assent/tool"
)

// says answers with what fn makes of a request.
type says func(model.Request) (model.Response, error)

func (s says) Generate(_ context.Context, r model.Request) (model.Response, error) { return s(r) }

func asks(text string) model.Request {
	return model.Request{Model: "m", System: "s", Messages: []model.Message{{Role: model.User, Text: text}},
		Tools: []model.Spec{{Name: "run", Parameters: json.RawMessage(`{"type":"object"}`)}}, MaxOutputTokens: 100}
}

func record(t *testing.T, m model.Model, o cassette.Options, requests ...model.Request) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tape.jsonl")
	r, err := cassette.Record(path, m, o)
	require.NoError(t, err)
	for _, req := range requests {
		_, _ = r.Generate(context.Background(), req)
	}
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	return path
}

var echo = says(func(r model.Request) (model.Response, error) {
	return model.Response{Text: "you said " + r.Messages[0].Text, Stop: model.StopToolUse,
		Calls: []model.ToolCall{{ID: "c1", Name: "run", Input: json.RawMessage(`{"b":1,"a":[1.50,"ä"]}`)}, {ID: "c2", Name: "run", Raw: `{"cut`}},
		Usage: model.Usage{InputTokens: 10, CachedInputTokens: 5, OutputTokens: 3}, Opaque: json.RawMessage(`{"sig":"x+/="}`)}, nil
})

func TestWhatIsRecordedIsPlayed(t *testing.T) {
	path := record(t, echo, cassette.Options{}, asks("one"), asks("two"))
	p, err := cassette.Play(path, cassette.Options{})
	require.NoError(t, err)
	for _, text := range []string{"two", "one", "one"} {
		want, err := echo(asks(text))
		require.NoError(t, err)
		got, err := p.Generate(context.Background(), asks(text))
		require.NoError(t, err)
		assert.JSONEq(t, string(want.Calls[0].Input), string(got.Calls[0].Input))
		got.Calls[0].Input = want.Calls[0].Input
		assert.Equal(t, want, got, "in any order, and again")
	}
	assert.Equal(t, model.Price{Free: true}, p.Price("m"))
}

func TestFailuresAreRecordedInTheirOrder(t *testing.T) {
	n := 0
	m := says(func(r model.Request) (model.Response, error) {
		if n++; n == 1 {
			return model.Response{}, &model.Error{Kind: "rate_limit", Msg: "slow down", Retry: true, After: 2 * time.Second}
		}
		if n == 3 {
			return model.Response{}, errors.New("odd")
		}
		return echo(r)
	})
	path := record(t, m, cassette.Options{}, asks("one"), asks("one"), asks("two"))
	p, err := cassette.Play(path, cassette.Options{})
	require.NoError(t, err)
	_, err = p.Generate(context.Background(), asks("one"))
	require.Equal(t, &model.Error{Kind: "rate_limit", Msg: "slow down", Retry: true, After: 2 * time.Second}, err)
	_, err = p.Generate(context.Background(), asks("one"))
	require.NoError(t, err)
	_, err = p.Generate(context.Background(), asks("two"))
	require.Equal(t, &model.Error{Kind: "error", Msg: "odd"}, err)
}

func TestARequestThatWasNotRecordedSaysWhereItDiffers(t *testing.T) {
	path := record(t, echo, cassette.Options{}, asks("one"))
	for name, c := range map[string]struct {
		change func(*model.Request)
		says   string
	}{
		"text":    {func(r *model.Request) { r.Messages[0].Text = "won" }, `on line 2 in messages[0].text: recorded as "one", asked as "won"`},
		"more":    {func(r *model.Request) { r.Messages = append(r.Messages, r.Messages[0]) }, `messages: recorded with 1, asked with 2`},
		"absent":  {func(r *model.Request) { r.Tools = nil }, `tools: recorded as [{`},
		"system":  {func(r *model.Request) { r.System = strings.Repeat("x", 500) }, `system: recorded as "s", asked as "xxx`},
		"model":   {func(r *model.Request) { r.Model = "n" }, `model: recorded as "m", asked as "n"`},
		"another": {func(r *model.Request) { r.Summary = &model.Summary{Number: 1} }, `summary: recorded as null`},
		"results": {func(r *model.Request) {
			r.Messages[0].Results = []model.ToolResult{{Result: tool.Result{Code: tool.OK}}}
		}, `messages[0].results: recorded as null`},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := cassette.Play(path, cassette.Options{})
			require.NoError(t, err)
			r := asks("one")
			c.change(&r)
			_, err = p.Generate(context.Background(), r)
			var m *model.Error
			require.ErrorAs(t, err, &m)
			assert.Equal(t, cassette.KindUnrecorded, m.Kind)
			assert.False(t, m.Retry)
			assert.Contains(t, m.Msg, c.says)
			assert.Less(t, len(m.Msg), 1000)
		})
	}
	p, err := cassette.Play(path, cassette.Options{})
	require.NoError(t, err)
	_, err = p.Generate(context.Background(), asks("one"))
	require.NoError(t, err)
	_, err = p.Generate(context.Background(), asks("two"))
	require.ErrorContains(t, err, "has 1 requests, all of them played")
}

func TestSecretsAreStruckOut(t *testing.T) {
	t.Setenv("SOME_API_KEY", "sk-very-secret-1")
	t.Setenv("SHORT_TOKEN", "abc")
	given := "pass \"word\"\n"
	m := says(func(r model.Request) (model.Response, error) {
		resp, err := echo(r)
		resp.Calls[0].Input = json.RawMessage(`{"header":"Bearer sk-very-secret-1"}`)
		return resp, err
	})
	o := cassette.Options{Secrets: []string{given, ""}}
	const text = "abc sk-very-secret-1 and pass \"word\"\n!"
	failing := says(func(model.Request) (model.Response, error) {
		return model.Response{}, &model.Error{Kind: "x", Msg: "sk-very-secret-1 refused"}
	})
	for _, path := range []string{record(t, m, o, asks(text)), record(t, failing, o, asks(text))} {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "very-secret")
		require.NotContains(t, string(raw), `word`)
		require.Contains(t, string(raw), "abc [secret] and [secret]!")
		p, err := cassette.Play(path, o)
		require.NoError(t, err)
		_, err = p.Generate(context.Background(), asks(text))
		if err != nil {
			require.EqualError(t, err, "model: x: [secret] refused", "the request is found all the same")
		}
	}
}

// A secret is as secret as the name of a member, in a URL, in JSON within a text, and in base64.
func TestSecretsInOddPlaces(t *testing.T) {
	const secret = "p<a&s/s +w\"ord-ü"
	t.Setenv("ODD_PASSWORD", secret)
	t.Setenv("ANOTHER_TOKEN", secret+"-longer")
	in, err := json.Marshal(map[string]any{secret: 1, "in " + secret: []string{secret}})
	require.NoError(t, err)
	var texts []string
	for _, before := range []string{"", "u", "us", "user:"} {
		plain := []byte(before + secret + "tail")
		texts = append(texts, base64.StdEncoding.EncodeToString(plain), base64.RawURLEncoding.EncodeToString(plain))
	}
	texts = append(texts, url.QueryEscape(secret), url.PathEscape(secret), string(in), secret+"-longer")
	m := says(func(model.Request) (model.Response, error) {
		return model.Response{Stop: model.StopToolUse, Calls: []model.ToolCall{{ID: "a", Name: "run", Input: in}}}, nil
	})
	path := record(t, m, cassette.Options{}, asks(strings.Join(texts, "\n")))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, bad := range append(texts, secret, "longer", "ord-", url.QueryEscape("p<a&s"), url.PathEscape("s +w"), "p\\u003ca",
		base64.StdEncoding.EncodeToString([]byte("<a&s/s +w\"")), base64.StdEncoding.EncodeToString([]byte("a&s/s +w\"o")), base64.StdEncoding.EncodeToString([]byte("p<a&s/s +"))) {
		require.NotContains(t, string(raw), bad)
	}
	p, err := cassette.Play(path, cassette.Options{})
	require.NoError(t, err)
	got, err := p.Generate(context.Background(), asks(strings.Join(texts, "\n")))
	require.NoError(t, err)
	require.JSONEq(t, `{"[secret]":1,"in [secret]":["[secret]"]}`, string(got.Calls[0].Input))
}

// Agents that share a recorder, and then a player, get what belongs to them.
func TestManyAgentsOnOneCassette(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tape")
	r, err := cassette.Record(path, echo, cassette.Options{})
	require.NoError(t, err)
	ask := func(m model.Model) {
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				text := fmt.Sprint("agent ", i%10, strings.Repeat("\x00\u2028", 1000))
				got, err := m.Generate(context.Background(), asks(text))
				assert.NoError(t, err)
				assert.Equal(t, "you said "+text, got.Text)
			})
		}
		all.Wait()
	}
	ask(r)
	require.NoError(t, r.Close())
	p, err := cassette.Play(path, cassette.Options{})
	require.NoError(t, err)
	ask(p)
}

func TestNumbersThatDifferALittle(t *testing.T) {
	with := func(n string) model.Request {
		r := asks("one")
		r.Messages[0].Calls = []model.ToolCall{{ID: "a", Name: "run", Input: json.RawMessage(`{"n":` + n + `}`)}}
		return r
	}
	p, err := cassette.Play(record(t, echo, cassette.Options{}, with("0.1")), cassette.Options{})
	require.NoError(t, err)
	_, err = p.Generate(context.Background(), with("0.10000000000000001"))
	require.ErrorContains(t, err, "messages[0].calls[0].input.n: recorded as 0.1, asked as 0.10000000000000001")
}

func TestWhatDiffersFromRunToRunCanBeMadeEqual(t *testing.T) {
	temp := regexp.MustCompile(`/tmp/\w+`)
	o := cassette.Options{Normalize: func(s string) string { return temp.ReplaceAllString(s, "/tmp/X") }}
	path := record(t, echo, o, asks("in /tmp/a1"))
	p, err := cassette.Play(path, o)
	require.NoError(t, err)
	got, err := p.Generate(context.Background(), asks("in /tmp/b2"))
	require.NoError(t, err)
	require.Equal(t, "you said in /tmp/a1", got.Text, "what was said is as it was")
}

func TestARecordingThatFailsReplacesNothing(t *testing.T) {
	path := record(t, echo, cassette.Options{}, asks("one"))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	r, err := cassette.Record(path, echo, cassette.Options{})
	require.NoError(t, err)
	bad := asks("x")
	bad.Messages[0].Opaque = json.RawMessage(`{`)
	_, err = r.Generate(context.Background(), bad)
	require.NoError(t, err, "the model has answered")
	require.Error(t, r.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing is left beside it")

	_, err = cassette.Record(filepath.Join(t.TempDir(), "no", "tape"), echo, cassette.Options{})
	require.Error(t, err)
	_, err = r.Generate(context.Background(), asks("after"))
	require.NoError(t, err)
}

func TestWhatNobodyWaitsForIsNotRecorded(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	path := filepath.Join(t.TempDir(), "tape")
	r, err := cassette.Record(path, says(func(model.Request) (model.Response, error) {
		cancel()
		return model.Response{}, context.Canceled
	}), cassette.Options{})
	require.NoError(t, err)
	_, err = r.Generate(ctx, asks("one"))
	require.Error(t, err)
	require.NoError(t, r.Close())
	_, err = cassette.Play(path, cassette.Options{})
	require.ErrorContains(t, err, "empty")
}

func TestAStreamIsToldAndPlayed(t *testing.T) {
	path := record(t, echo, cassette.Options{}, asks("one"))
	p, err := cassette.Play(path, cassette.Options{})
	require.NoError(t, err)
	var text string
	var calls []model.CallDelta
	_, err = p.Stream(context.Background(), asks("one"), func(d model.Delta) {
		text += d.Text
		if d.Call != nil {
			calls = append(calls, *d.Call)
		}
	})
	require.NoError(t, err)
	require.Equal(t, "you said one", text)
	require.Equal(t, []model.CallDelta{{Name: "run", Input: `{"a":[1.5,"ä"],"b":1}`}, {Index: 1, Name: "run", Input: `{"cut`}}, calls)
}

func TestBadCassettes(t *testing.T) {
	good := `{"cassette":1}` + "\n"
	for name, c := range map[string]struct{ text, says string }{
		"nothing":     {"", "empty"},
		"no head":     {`{"request":{}}`, ":1:1: is no line of a cassette"},
		"head alone":  {good, "empty"},
		"version":     {`{"cassette":2}`, "version 2, not 1"},
		"garbage":     {good + "garbage\n", ":2:1: is no line"},
		"cut":         {good + `{"request":{"model":"m","messages":null},"resp`, ":2:1: is no line"},
		"neither":     {good + `{"request":{}}`, "a response or an error"},
		"both":        {good + `{"request":{},"response":{"stop":"end"},"error":{"kind":"x","message":""}}`, "a response or an error"},
		"no request":  {good + `{"response":{"stop":"end"}}`, "an exchange has a request"},
		"unknown key": {good + `{"request":{},"reponse":{}}`, `unknown field "reponse"`},
		"response":    {good + `{"request":{},"response":[]}`, ":2:1: is no line"},
		"a typo":      {good + `{"request":{},"response":{"txt":"hello","stop":"end"}}`, `unknown field "txt"`},
		"two in one":  {good + `{"request":{},"response":{"stop":"end"}}{"request":{},"response":{"stop":"end"}}`, "there is more behind the value"},
		"merged":      {good + "<<<<<<< ours\n", ":2:1: is no line"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tape")
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			_, err := cassette.Play(path, cassette.Options{})
			require.True(t, fault.IsConfig(err), "%v", err)
			require.ErrorContains(t, err, c.says)
		})
	}
	_, err := cassette.Play(filepath.Join(t.TempDir(), "none"), cassette.Options{})
	require.True(t, fault.IsConfig(err))
}

func FuzzPlay(f *testing.F) {
	f.Add("{\"cassette\":1}\n{\"request\":{\"model\":\"m\"},\"response\":{\"stop\":\"end\"}}\n")
	path := filepath.Join(f.TempDir(), "tape") // each process that fuzzes has its own
	f.Fuzz(func(t *testing.T, text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		p, err := cassette.Play(path, cassette.Options{})
		if err != nil {
			require.True(t, fault.IsConfig(err), "%v", err)
			return
		}
		_, _ = p.Generate(context.Background(), asks("one"))
	})
}
