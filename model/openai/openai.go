package openai

import (
	"context"
	"errors"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/endpoint"
)

// DefaultBaseURL is the vendor's API.
const DefaultBaseURL = "https://api.openai.com/v1"

// The values of Config.API.
const (
	// Responses is the vendor's own choice for its models. It is the default.
	Responses = "responses"
	// Chat is Chat Completions, which nearly every other server speaks.
	Chat = "chat"
)

// The values of Config.Dialect.
const (
	// Full is everything that the vendor's models understand.
	Full = "openai"
	// Compatible leaves out what other servers often refuse or misread: it asks for an output in words, bounds it by
	// max_tokens, and does not ask for encrypted reasoning.
	Compatible = "compatible"
)

// Efforts are the values of Config.Effort.
var Efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Config says how to reach the API and how to ask. Only Endpoint.Key is needed for the vendor's.
type Config struct {
	// Endpoint has the vendor's address and way to send a key where it says nothing else.
	Endpoint endpoint.Config
	API      string
	// Dialect is Full at the vendor's address and at Azure's, else Compatible, if it is empty.
	Dialect string
	// Effort is how much to reason; empty leaves it to the model. Not every model takes every value.
	Effort string
}

// Model is the driver.
type Model struct {
	cfg       Config
	at        *endpoint.Endpoint
	chat      sdk.ChatService
	responses responses.ResponseService
}

var _ model.Streamer = (*Model)(nil)

// New checks c. Nothing is sent. Errors are *fault.ConfigError.
func New(c Config) (*Model, error) {
	if c.Endpoint.BaseURL == "" {
		c.Endpoint.BaseURL = DefaultBaseURL
	}
	if c.Endpoint.Auth == "" {
		c.Endpoint.Auth = endpoint.Bearer
	}
	if c.API == "" {
		c.API = Responses
	}
	if err := endpoint.CheckFields(
		endpoint.Field{Key: "api", Got: c.API, Allowed: []string{Responses, Chat}},
		endpoint.Field{Key: "dialect", Got: c.Dialect, Allowed: []string{"", Full, Compatible}},
		endpoint.Field{Key: "effort", Got: c.Effort, Allowed: append([]string{""}, Efforts...)},
	); err != nil {
		return nil, err
	}
	at, err := endpoint.New(c.Endpoint)
	if err != nil {
		return nil, err
	}
	if c.Dialect == "" {
		c.Dialect = Compatible
		if at.Host("openai.com") || at.Host("azure.com") {
			c.Dialect = Full
		}
	}
	// A client of the SDK would read the environment; its services do not.
	opts := []option.RequestOption{option.WithBaseURL(at.BaseURL()), option.WithHTTPClient(at.Client()), option.WithMaxRetries(0)}
	return &Model{cfg: c, at: at, chat: sdk.NewChatService(opts...), responses: responses.NewResponseService(opts...)}, nil
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
	if m.cfg.API == Chat {
		return m.askChat(ctx, r, progress)
	}
	return m.askResponses(ctx, r, progress)
}

// full reports the vendor's dialect.
func (m *Model) full() bool { return m.cfg.Dialect == Full }

// failed keeps of an SDK's error what may be said.
func (m *Model) failed(ctx context.Context, err error) error {
	var known *model.Error
	var said *ssestream.StreamError
	if errors.As(err, &known) || !errors.As(err, &said) {
		return m.at.Failed(ctx, err)
	}
	// An error in the stream, whose status was 200.
	return m.told(endpoint.Parse(said.Event.Data))
}

// told makes an error of what the provider said in a stream.
func (m *Model) told(f endpoint.Failure) error {
	if f.Message == "" {
		f.Message = "the stream ended with an error"
	}
	e := endpoint.Classify(f)
	e.Msg = m.at.Clean(f.Message)
	return e
}

// arguments makes the input of a call of the text of its arguments. A text that is cut, because the turn had to end, is no
// call without arguments.
func arguments(c *model.ToolCall, text string, cut bool) {
	switch {
	case text == "" && cut:
		c.Raw = "{"
	case text == "":
		c.Input = []byte(`{}`)
	default:
		c.Input, c.Raw = valid(text)
	}
}
