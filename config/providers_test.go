package config_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
)

func TestBadProviders(t *testing.T) {
	const other = "models: {others: {x: {api: chat, baseURL: 'http://h/v1', "
	for text, want := range map[string]string{
		"models: {anthropic: }":                      "1:20: models.anthropic: is empty, want a mapping",
		"models: {openai: {key: sk-1}}":              `1:19: models.openai: unknown key "key"; one of baseURL, keyEnv, keyFile, auth, headers, timeout, silence, models, cache, thinking, dialect, effort, api`,
		"models: {anthropic: {api: chat}}":           `1:22: models.anthropic: unknown key "api"; one of baseURL, keyEnv, keyFile, auth, headers, timeout, silence, models, cache, thinking, dialect, effort`,
		"models: {openai: {api: messages}}":          `1:24: unknown API "messages"; one of responses, chat`,
		"models: {openai: {baseURL: api.x.com/v1}}":  `1:28: models.openai.baseURL: "api.x.com/v1" has no scheme http or https; want one such as https://api.example.com/v1`,
		"models: {openai: {baseURL: 'localhost:1'}}": `1:28: models.openai.baseURL: "localhost:1" has no scheme http or https; want one such as https://api.example.com/v1`,
		"models: {openai: {keyEnv: sk-proj-123}}":    "1:27: models.openai.keyEnv: is no name of an environment variable, which is what stands here; the key itself does not",
		"models: {openai: {keyEnv: A, keyFile: b}}":  "1:39: models.openai.keyFile: and keyEnv are both set; one of them names the key",
		"models: {openai: {cache: 5m}}":              "1:26: models.openai.cache: is for api messages; the others cache by themselves",
		"models: {openai: {thinking: adaptive}}":     "1:29: models.openai.thinking: is for api messages; effort is for the others",
		"models: {anthropic: {dialect: compatible}}": "1:31: models.anthropic.dialect: is for api responses and chat",
		"models: {anthropic: {effort: minimal}}":     `1:30: unknown effort "minimal"; one of low, medium, high, xhigh, max`,
		"models: {anthropic: {timeout: 0s}}":         `1:31: models.anthropic.timeout: duration "0s" is not more than zero`,
		"models: {anthropic: {models: []}}":          "1:30: models.anthropic.models: is empty; leave it out for any model",
		"models: {others: {x: {api: chat}}}":         "1:22: models.others.x: baseURL is missing",
		"models: {others: {x: {baseURL: http://h}}}": "1:22: models.others.x: api is missing",
		"models: {others: {openai: {}}}":             "1:19: models.others: the name openai is taken; models.openai is its section",
		"models: {others: {'a:b': {}}}":              "1:19: models.others: a provider's name is not empty and holds no colon and no space",
		"models: {others: {a: b}}":                   "1:22: models.others.a: want a mapping, got a string",
		other + "headers: {Authorization: x}}}}":     "1:83: models.others.x.headers.Authorization: is not set here; a key comes from keyEnv or keyFile",
		other + "auth: basic}}}":                     `1:64: unknown way to send a key "basic"; one of bearer, x-api-key`,
	} {
		_, err := config.Parse("p.yaml", []byte(text))
		require.EqualError(t, err, "p.yaml:"+want, text)
		require.True(t, fault.IsConfig(err))
	}
}

// What is found only when a driver is made has its place in the file too.
func TestLocate(t *testing.T) {
	f, err := config.Parse("p.yaml", []byte("models:\n  openai:\n    keyEnv: NO_KEY\n"))
	require.NoError(t, err)
	require.EqualError(t, f.Locate("models.openai", fault.Configf("keyEnv", "is not set")), "p.yaml:3:13: models.openai.keyEnv: is not set")
	require.EqualError(t, f.Locate("models.openai", fault.Configf("keyFile", "x")), "p.yaml:3:5: models.openai.keyFile: x")
	other := errors.New("x")
	require.Equal(t, other, f.Locate("models", other))
}
