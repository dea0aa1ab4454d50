package model_test

import (
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
)

func TestCost(t *testing.T) {
	opus := model.Price{Rates: model.Rates{Input: 5, CachedInput: 0.5, CacheWrite: 6.25, Output: 25}}
	long := model.Price{Rates: model.Rates{Input: 1, Output: 5}, LongAbove: 1000, Long: model.Rates{Input: 2, Output: 8}}
	for name, tc := range map[string]struct {
		price model.Price
		usage model.Usage
		want  float64
		known bool
	}{
		"plain":             {opus, model.Usage{InputTokens: 1e6, OutputTokens: 1e6}, 30, true},
		"cached is cheaper": {opus, model.Usage{InputTokens: 1e6, CachedInputTokens: 1e6}, 0.5, true},
		"written to cache":  {opus, model.Usage{InputTokens: 1e6, CacheWriteTokens: 1e6}, 6.25, true},
		"all three":         {opus, model.Usage{InputTokens: 3e6, CachedInputTokens: 1e6, CacheWriteTokens: 1e6}, 11.75, true},
		"no cached rate":    {long, model.Usage{InputTokens: 1000, CachedInputTokens: 500}, 0.001, true},
		"cached is dearer":  {model.Price{Rates: model.Rates{Input: 1, CachedInput: 2, Output: 1}}, model.Usage{InputTokens: 1e6, CachedInputTokens: 1e6}, 2, true},
		"long":              {long, model.Usage{InputTokens: 1001, OutputTokens: 1}, (2002 + 8) / 1e6, true},
		"not long":          {long, model.Usage{InputTokens: 1000, OutputTokens: 1}, (1000 + 5) / 1e6, true},
		"nothing":           {opus, model.Usage{}, 0, true},
		"unknown":           {model.Price{ContextWindow: 1000}, model.Usage{InputTokens: 1e6}, 0, false},
		"free":              {model.Price{Free: true}, model.Usage{InputTokens: 1e6}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, known := tc.price.Cost(tc.usage)
			require.InDelta(t, tc.want, got, 1e-12)
			require.Equal(t, tc.known, known)
			require.LessOrEqual(t, got, tc.price.Most(tc.usage.InputTokens, tc.usage.OutputTokens)+1e-12)
		})
	}
}

// What can be paid for is never more than what is left, and one token more is.
func TestAffords(t *testing.T) {
	p := model.Price{Rates: model.Rates{Input: 5, Output: 25}}
	for _, usd := range []float64{0.01, 0.5, 3, 1e6} {
		n := p.Affords(usd, 1000)
		require.LessOrEqual(t, p.Most(1000, n), usd+1e-9)
		require.Greater(t, p.Most(1000, n+1), usd)
	}
	require.Negative(t, p.Affords(0.001, 1000))
	require.Negative(t, p.Affords(-1, 0))
	require.Equal(t, int64(math.MaxInt64), model.Price{Free: true}.Affords(0, 1000))
	require.Equal(t, int64(math.MaxInt64), model.Price{Rates: model.Rates{Input: 1, Output: 1e-300}}.Affords(1, 0))
}

func TestPricesAreValid(t *testing.T) {
	require.NotEmpty(t, model.DefaultPrices())
	for name, p := range model.DefaultPrices() {
		require.NoError(t, p.Validate(name))
		require.True(t, p.Known(), name)
		require.True(t, strings.HasPrefix(name, "anthropic:") || strings.HasPrefix(name, "openai:"), name)
		require.Positive(t, p.ContextWindow, name)
		require.LessOrEqual(t, p.CachedInput, p.Input, name)
		_, err := time.Parse(time.DateOnly, p.AsOf)
		require.NoError(t, err, name)
		u, err := url.Parse(p.Source)
		require.NoError(t, err)
		require.Equal(t, "https", u.Scheme, name)
	}
}

func TestPricesThatAreNone(t *testing.T) {
	one := model.Rates{Input: 1, Output: 1}
	for want, p := range map[string]model.Price{
		"p.input: -1 is out of range":               {Rates: model.Rates{Input: -1, Output: 1}},
		"p.output: NaN is out of range":             {Rates: model.Rates{Input: 1, Output: math.NaN()}},
		"p.cachedInput: +Inf is out of range":       {Rates: model.Rates{Input: 1, CachedInput: math.Inf(1), Output: 1}},
		"p.input: 1e+09 is out of range":            {Rates: model.Rates{Input: 1e9, Output: 1}},
		"p.long.output: -1 is out of range":         {Rates: one, LongAbove: 1, Long: model.Rates{Input: 1, Output: -1}},
		"p.contextWindow: -1 is out of range":       {ContextWindow: -1},
		"p.contextWindow: 10 is out of range":       {ContextWindow: 10},
		"p.maxOutput: -5 is out of range":           {MaxOutput: -5},
		"p.longAbove: -1 is out of range":           {LongAbove: -1},
		"p: is free and has rates":                  {Rates: one, Free: true},
		"p.long: and longAbove go together":         {Rates: one, LongAbove: 5},
		"p.output: is missing":                      {Rates: model.Rates{Input: 1}},
		"p.long.output: is missing":                 {Rates: one, LongAbove: 5, Long: model.Rates{Input: 1}},
		"p.long.input: is missing":                  {Rates: one, LongAbove: 5, Long: model.Rates{Output: 1}},
		"p.long: needs rates for shorter input too": {LongAbove: 5, Long: one},
	} {
		err := p.Validate("p")
		require.ErrorContains(t, err, want)
		require.True(t, fault.IsConfig(err))
	}
}

func TestAnEntryGoesBeforeOthers(t *testing.T) {
	base := model.Prices{"a:x": {Rates: model.Rates{Input: 1, Output: 2}, ContextWindow: 5000, MaxOutput: 100, AsOf: "2026-01-01"}, "a:y": {Free: true}}
	got := model.Prices{"a:x": {ContextWindow: 9000}, "a:z": {Rates: model.Rates{Output: 7}}, "a:y": {Rates: model.Rates{Output: 1}}}.Over(base)
	require.Equal(t, model.Prices{
		"a:x": {Rates: model.Rates{Input: 1, Output: 2}, ContextWindow: 9000, MaxOutput: 100, AsOf: "2026-01-01"},
		"a:y": {Rates: model.Rates{Output: 1}}, "a:z": {Rates: model.Rates{Output: 7}},
	}, got)
	require.Equal(t, base, model.Prices(nil).Over(base))
	require.Equal(t, got, got.Over(nil))
}
