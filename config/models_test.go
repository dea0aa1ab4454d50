package config_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
)

func TestPricesAndOutput(t *testing.T) {
	f, err := config.Parse("p.yaml", []byte(`
models:
  compactAt: 0.5
  prices:
    "anthropic:claude-opus-5": {input: 4, cachedInput: 0.4, cacheWrite: 5, output: 20, asOf: "2026-11-02", source: our contract}
    "local:llama": {free: true, contextWindow: 32000, maxOutput: 4096}
    "openai:x": {input: 1, output: 2, longAbove: 200000, long: {input: 2, output: 4}}
profiles:
  p:
    model: local:llama
    budgetUSD: 0.25
    output:
      type: object
      properties:
        verdict: {enum: [good, bad]}
        size: {type: integer, maximum: 9007199254740993}
      required: [verdict]
`))
	require.NoError(t, err)
	require.Equal(t, 0.5, f.Models.CompactAt)
	require.Equal(t, model.Prices{
		"anthropic:claude-opus-5": {Rates: model.Rates{Input: 4, CachedInput: 0.4, CacheWrite: 5, Output: 20}, AsOf: "2026-11-02", Source: "our contract"},
		"local:llama":             {Free: true, ContextWindow: 32000, MaxOutput: 4096},
		"openai:x":                {Rates: model.Rates{Input: 1, Output: 2}, LongAbove: 200_000, Long: model.Rates{Input: 2, Output: 4}},
	}, f.Models.Prices)
	p := f.Profiles["p"]
	require.Equal(t, 0.25, *p.BudgetUSD)
	require.JSONEq(t, `{"type":"object","properties":{"verdict":{"enum":["good","bad"]},"size":{"type":"integer","maximum":9007199254740993}},"required":["verdict"]}`,
		string(p.Output.Schema()))
	require.NotEmpty(t, p.Output.Validate(json.RawMessage(`{"size":9007199254740994,"verdict":"good"}`)), "digits are kept")
	require.Empty(t, p.Output.Validate(json.RawMessage(`{"size":9007199254740993,"verdict":"good"}`)))
}
