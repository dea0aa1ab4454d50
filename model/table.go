package model

// Where the entries below were read.
const (
	claude        = "https://platform.claude.com/docs"
	claudePricing = claude + "/en/about-claude/pricing"
	openaiModels  = "https://developers.openai.com/api/docs/models"
)

// DefaultPrices are list prices in USD for a million tokens, of the day PricesAsOf. They are no promise of anybody: prices
// change, and discounts, batches, priority, regions and fees of tools are not in them. A worker's own table goes first. A
// model whose price could not be read from a public page is not here, and a cached rate that could not be read is left out.
func DefaultPrices() Prices {
	const k, m = 1_000, 1_000_000
	out := Prices{
		"anthropic:claude-opus-5-5": {Rates: Rates{4, 0.20, 5, 20}, ContextWindow: m, MaxOutput: 128 * k,
			Source: claude + "/zh-CN/models/opus-5-5/overview"},
		"anthropic:claude-opus-5": {Rates: Rates{5, 0.50, 6.25, 25}, ContextWindow: m, MaxOutput: 128 * k,
			Source: claude + "/about-claude/models/whats-new-opus-5"},
		"anthropic:claude-opus-4-5":   {Rates: Rates{5, 0.50, 6.25, 25}, ContextWindow: 200 * k, MaxOutput: 64 * k, Source: claudePricing},
		"anthropic:claude-sonnet-5-5": {Rates: Rates{Input: 2, Output: 10}, ContextWindow: m, MaxOutput: 128 * k, Source: claude + "/en/models/overview"},
		"anthropic:claude-sonnet-5":   {Rates: Rates{Input: 2, Output: 10}, ContextWindow: m, MaxOutput: 128 * k, Source: claude + "/zh-CN/models/sonnet-5/overview.md"},
		"anthropic:claude-sonnet-4-5": {Rates: Rates{3, 0.30, 3.75, 15}, ContextWindow: 200 * k, MaxOutput: 64 * k, Source: claudePricing},
		"anthropic:claude-haiku-5-5": {Rates: Rates{Input: 0.10, CacheWrite: 0.125, Output: 0.50}, LongAbove: 100 * k,
			Long: Rates{Input: 0.50, CacheWrite: 0.625, Output: 2.50}, ContextWindow: m, MaxOutput: 128 * k, Source: claude + "/zh-CN/models/haiku-5-5/overview"},
		"anthropic:claude-haiku-4-5": {Rates: Rates{1, 0.10, 1.25, 5}, ContextWindow: 200 * k, MaxOutput: 64 * k, Source: claudePricing},

		"openai:gpt-6.1-terra": {Rates: Rates{Input: 1, CachedInput: 0.05, Output: 5}, LongAbove: 272 * k,
			Long: Rates{Input: 2, CachedInput: 0.10, Output: 7.50}, ContextWindow: 1_050 * k, MaxOutput: 128 * k, Source: "https://docs.litellm.ai/blog/gpt-6-1-terra"},
		"openai:gpt-5.4": {Rates: Rates{Input: 2.50, Output: 15}, LongAbove: 272 * k, Long: Rates{Input: 5, Output: 22.50},
			ContextWindow: 1_050 * k, MaxOutput: 128 * k, Source: "https://wavespeed.ai/llm/openai/gpt-5.4"},
		"openai:gpt-5.2":     {Rates: Rates{Input: 1.75, Output: 14}, ContextWindow: 256 * k, MaxOutput: 64 * k, Source: "https://docs.venice.ai/models/gpt-5-2"},
		"openai:gpt-5-codex": {Rates: Rates{Input: 1.25, CachedInput: 0.125, Output: 10}, ContextWindow: 400 * k, MaxOutput: 128 * k, Source: openaiModels + "/gpt-5-codex"},
		"openai:gpt-5-nano":  {Rates: Rates{Input: 0.05, CachedInput: 0.005, Output: 0.40}, ContextWindow: 400 * k, MaxOutput: 128 * k, Source: openaiModels + "/gpt-5-nano"},
	}
	for name, p := range out {
		p.AsOf = PricesAsOf
		out[name] = p
	}
	return out
}
