package anthropic

import (
	"context"
	"errors"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/endpoint"
)

// DefaultBaseURL is the vendor's API.
const DefaultBaseURL = "https://api.anthropic.com"

// The values of Config.Cache.
const (
	// CacheShort keeps the prompt in the provider's cache for five minutes after its last use. It is the default.
	CacheShort = "5m"
	CacheLong  = "1h"
	CacheOff   = "off"
)

// The values of Config.Thinking.
const (
	// ThinkingAdaptive lets the model decide.
	ThinkingAdaptive = "adaptive"
	ThinkingDisabled = "disabled"
)

// Efforts are the values of Config.Effort.
var Efforts = []string{"low", "medium", "high", "xhigh", "max"}

// Config says how to reach the API and how to ask. Only Endpoint.Key is needed for the vendor's.
type Config struct {
	// Endpoint has the vendor's address and way to send a key where it says nothing else.
	Endpoint endpoint.Config
	// Cache is how long prompts are cached; empty is CacheShort.
	Cache string
	// Thinking and Effort are left to the model if they are empty. Not every model takes every value.
	Thinking, Effort string
}

// Model is the driver.
type Model struct {
	cfg    Config
	at     *endpoint.Endpoint
	client sdk.Client
}

var _ model.Streamer = (*Model)(nil)

// New checks c. Nothing is sent. Errors are *fault.ConfigError.
func New(c Config) (*Model, error) {
	if c.Endpoint.BaseURL == "" {
		c.Endpoint.BaseURL = DefaultBaseURL
	}
	if c.Endpoint.Auth == "" {
		c.Endpoint.Auth = endpoint.XAPIKey
	}
	if c.Cache == "" {
		c.Cache = CacheShort
	}
	if err := endpoint.CheckFields(
		endpoint.Field{Key: "cache", Got: c.Cache, Allowed: []string{CacheShort, CacheLong, CacheOff}},
		endpoint.Field{Key: "thinking", Got: c.Thinking, Allowed: []string{"", ThinkingAdaptive, ThinkingDisabled}},
		endpoint.Field{Key: "effort", Got: c.Effort, Allowed: append([]string{""}, Efforts...)},
	); err != nil {
		return nil, err
	}
	// The SDK adds v1/messages itself, and people copy addresses with the version.
	c.Endpoint.BaseURL = strings.TrimSuffix(strings.TrimRight(c.Endpoint.BaseURL, "/"), "/v1")
	at, err := endpoint.New(c.Endpoint)
	if err != nil {
		return nil, err
	}
	// The engine has spans of its own; the SDK's could be told by the environment to hold what is said.
	return &Model{cfg: c, at: at, client: sdk.NewClient(option.WithoutEnvironmentDefaults(), option.WithoutOpenTelemetry(),
		option.WithOpenTelemetryPropagation(false), option.WithBaseURL(at.BaseURL()), option.WithHTTPClient(at.Client()),
		option.WithMaxRetries(0))}, nil
}

// Generate asks for one turn.
func (m *Model) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	return m.Stream(ctx, r, func(model.Delta) {})
}

// Stream asks for one turn and tells progress what comes.
func (m *Model) Stream(ctx context.Context, r model.Request, progress func(model.Delta)) (model.Response, error) {
	ctx, done := m.at.Turn(ctx)
	defer done()
	resp, err := m.attempt(ctx, r, progress)
	if lighter, ok := endpoint.Lighter(r, err); ok {
		resp, err = m.attempt(ctx, lighter, progress)
	}
	return resp, endpoint.Broken(ctx, err)
}

func (m *Model) attempt(ctx context.Context, r model.Request, progress func(model.Delta)) (model.Response, error) {
	params, err := m.params(r)
	if err != nil {
		return model.Response{}, err
	}
	stream := m.client.Messages.NewStreaming(ctx, params)
	defer func() { _ = stream.Close() }()
	t := turn{model: r.Model, progress: progress}
	for stream.Next() {
		if err := t.add(stream.Current()); err != nil {
			return model.Response{}, err
		}
	}
	if err := stream.Err(); err != nil {
		return model.Response{}, m.failed(ctx, err)
	}
	return t.response()
}

// failed keeps of an SDK's error what may be said.
func (m *Model) failed(ctx context.Context, err error) error {
	var known *model.Error
	var said *sdk.Error
	if errors.As(err, &known) || !errors.As(err, &said) {
		return m.at.Failed(ctx, err)
	}
	// An error in the stream, whose status was 200.
	f := endpoint.Parse([]byte(said.RawJSON()))
	if f.Message == "" {
		f.Message = "the stream ended with an error"
	}
	e := endpoint.Classify(f)
	e.Msg = m.at.Clean(f.Message)
	return e
}
