package model

import (
	"maps"
	"math"

	"github.com/assent-dev/assent/fault"
)

// PricesAsOf is the day on which the entries of DefaultPrices were read.
const PricesAsOf = "2026-12-01"

// Rates are USD for a million tokens.
type Rates struct {
	Input float64 `json:"input"`
	// CachedInput is for input that the provider had in its cache. Zero means that no discount is known: it costs Input.
	CachedInput float64 `json:"cachedInput,omitempty"`
	// CacheWrite is for input that is put into the cache. Zero means Input.
	CacheWrite float64 `json:"cacheWrite,omitempty"`
	Output     float64 `json:"output"`
}

// Price is what one model costs, and how much fits into it.
type Price struct {
	Rates
	// LongAbove is the number of input tokens from which on a whole request costs Long; zero means never.
	LongAbove int64 `json:"longAbove,omitempty"`
	Long      Rates `json:"long"`
	// ContextWindow bounds input and output together, MaxOutput the output, in tokens; zero means unknown.
	ContextWindow int64 `json:"contextWindow,omitempty"`
	MaxOutput     int64 `json:"maxOutput,omitempty"`
	// Free makes rates of zero a price. Without it they are a price that is not known.
	Free bool `json:"free,omitempty"`
	// AsOf is a day as 2006-01-02, and Source where the entry was read on it.
	AsOf   string `json:"asOf,omitempty"`
	Source string `json:"source,omitempty"`
}

// Known reports whether a cost can be told.
func (p Price) Known() bool { return p.Free || p.Input > 0 || p.Output > 0 }

// rates are those of a request with so much input.
func (p Price) rates(input int64) Rates {
	if p.LongAbove > 0 && input > p.LongAbove {
		return p.Long
	}
	return p.Rates
}

// Cost is what a request cost, in USD; ok is false if the price is not known.
func (p Price) Cost(u Usage) (usd float64, ok bool) {
	if !p.Known() {
		return 0, false
	}
	r := p.rates(u.InputTokens)
	or := func(rate float64) float64 {
		if rate == 0 {
			return r.Input
		}
		return rate
	}
	plain := max(u.InputTokens-u.CachedInputTokens-u.CacheWriteTokens, 0)
	return (float64(plain)*r.Input + float64(u.CachedInputTokens)*or(r.CachedInput) + float64(u.CacheWriteTokens)*or(r.CacheWrite) +
		float64(u.OutputTokens)*r.Output) / 1e6, true
}

// Most is the most that a request of so many tokens can cost, in USD: whatever comes from a cache or is put into it.
func (p Price) Most(input, output int64) float64 {
	r := p.rates(input)
	return (float64(input)*max(r.Input, r.CachedInput, r.CacheWrite) + float64(output)*r.Output) / 1e6
}

// Affords is the number of output tokens that usd pays for beside so much input. It is negative if the input alone costs
// more, and math.MaxInt64 if output costs nothing.
func (p Price) Affords(usd float64, input int64) int64 {
	left := usd - p.Most(input, 0)
	switch r := p.rates(input); {
	case left < 0:
		return -1
	case r.Output == 0 || left*1e6/r.Output >= math.MaxInt64/2:
		return math.MaxInt64
	default:
		return int64(left * 1e6 / r.Output)
	}
}

// mostRate and mostTokens are beyond what anybody asks or offers; larger numbers are slips.
const (
	mostRate   = 1e6
	mostTokens = 1 << 40
)

// Validate reports an entry that cannot be used as a *fault.ConfigError.
func (p Price) Validate(key string) error {
	for _, r := range []struct {
		name string
		usd  float64
	}{{"input", p.Input}, {"cachedInput", p.CachedInput}, {"cacheWrite", p.CacheWrite}, {"output", p.Output}, {"long.input", p.Long.Input},
		{"long.cachedInput", p.Long.CachedInput}, {"long.cacheWrite", p.Long.CacheWrite}, {"long.output", p.Long.Output}} {
		// The negation refuses NaN too.
		if !(r.usd >= 0 && r.usd <= mostRate) {
			return fault.Configf(key+"."+r.name, "%v is out of range; 0 to %v USD for a million tokens", r.usd, float64(mostRate))
		}
	}
	for _, n := range []struct {
		name   string
		tokens int64
	}{{"longAbove", p.LongAbove}, {"contextWindow", p.ContextWindow}, {"maxOutput", p.MaxOutput}} {
		if n.tokens < 0 || n.tokens > mostTokens {
			return fault.Configf(key+"."+n.name, "%d is out of range; 1 to %d tokens, or 0 for none", n.tokens, int64(mostTokens))
		}
	}
	switch {
	case p.Free && (p.Rates != Rates{} || p.Long != Rates{}):
		return fault.Configf(key, "is free and has rates")
	case (p.LongAbove > 0) != (p.Long != Rates{}):
		return fault.Configf(key+".long", "and longAbove go together")
	case p.LongAbove > 0 && !p.Known():
		return fault.Configf(key+".long", "needs rates for shorter input too")
	case p.Known() && !p.Free && p.Output == 0:
		return fault.Configf(key+".output", "is missing: what costs for input costs for output")
	// A rate that was forgotten would be free from there on, and no budget would count it.
	case p.LongAbove > 0 && p.Long.Output == 0:
		return fault.Configf(key+".long.output", "is missing: what costs for input costs for output")
	case p.LongAbove > 0 && p.Long.Input == 0 && p.Input > 0:
		return fault.Configf(key+".long.input", "is missing: shorter input costs")
	case p.ContextWindow > 0 && p.ContextWindow < leastWindow:
		return fault.Configf(key+".contextWindow", "%d is out of range; at least %d tokens", p.ContextWindow, leastWindow)
	}
	return nil
}

// leastWindow is the smallest window in which an agent can do anything.
const leastWindow = 1000

// Prices maps `provider:model` to what it costs.
type Prices map[string]Price

// Over returns the entries of p, and those of base that p does not have. What an entry of p leaves out, its rates, its window
// or its bound of the output, is that of base.
func (p Prices) Over(base Prices) Prices {
	out := maps.Clone(base)
	if out == nil {
		out = Prices{}
	}
	for name, price := range p {
		out[name] = price.Over(base[name])
	}
	return out
}

// Over returns p with what it leaves out taken from base.
func (p Price) Over(base Price) Price {
	out := p
	if !p.Known() {
		out.Rates, out.LongAbove, out.Long, out.Free = base.Rates, base.LongAbove, base.Long, base.Free
		out.AsOf, out.Source = base.AsOf, base.Source
	}
	if out.ContextWindow == 0 {
		out.ContextWindow = base.ContextWindow
	}
	if out.MaxOutput == 0 {
		out.MaxOutput = base.MaxOutput
	}
	return out
}

// A conversation is compacted at a share of the context window: DefaultShare of it, unless a worker says another one in
// these bounds.
const (
	DefaultShare = 0.8
	LeastShare   = 0.1
	MostShare    = 0.95
)
