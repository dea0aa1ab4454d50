package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/exit"
)

// The server that is meant if nobody says otherwise.
const (
	DefaultAddress   = "127.0.0.1:7233"
	DefaultNamespace = client.DefaultNamespace
)

// within bounds the time in which a server must answer. It is short, because a person waits.
const within = 3 * time.Second

// Settings say which server is meant. The zero value means what the environment says.
type Settings struct {
	// Address and Namespace are flags; empty means not given.
	Address, Namespace string
	// FileAddress and FileNamespace come from the caller's own file, and give way to the environment.
	FileAddress, FileNamespace string
	// Alone ignores the environment and temporal.toml: for servers that a program started itself, which need no
	// certificate or key that the user has for another one.
	Alone bool
	// Log gets what the SDK says; nil discards it.
	Log *slog.Logger
}

// Options returns the options of a client. Errors are *fault.ConfigError.
func Options(s Settings) (client.Options, error) {
	var profile envconfig.ClientConfigProfile
	if !s.Alone {
		fromFile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{DisableEnv: true})
		if err != nil {
			return client.Options{}, &fault.ConfigError{Key: "temporal.toml", Msg: "cannot be used", Cause: err}
		}
		profile = fromFile
	}
	profile.Address = first(s.FileAddress, profile.Address)
	profile.Namespace = first(s.FileNamespace, profile.Namespace)
	if !s.Alone {
		if err := profile.ApplyEnvVars(nil); err != nil {
			return client.Options{}, &fault.ConfigError{Key: "TEMPORAL_* variables", Msg: "cannot be used", Cause: err}
		}
	}
	profile.Address = first(s.Address, profile.Address, DefaultAddress)
	profile.Namespace = first(s.Namespace, profile.Namespace, DefaultNamespace)
	o, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return client.Options{}, &fault.ConfigError{Key: "connection", Msg: "cannot be used", Cause: err}
	}
	log := s.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	o.Logger = sdklog.NewStructuredLogger(log)
	return o, nil
}

// Server is an open connection and the names it was opened with.
type Server struct {
	client.Client
	Address, Namespace string
}

// Dial connects and makes sure that the namespace is there. It takes a few seconds at most.
func Dial(ctx context.Context, s Settings) (*Server, error) {
	o, err := Options(s)
	if err != nil {
		return nil, err
	}
	attempt, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	o.ConnectionOptions.GetSystemInfoTimeout = within
	c, err := client.DialContext(attempt, o)
	if err != nil {
		return nil, unreachable(ctx, o, err)
	}
	_, err = c.WorkflowService().DescribeNamespace(attempt, &workflowservice.DescribeNamespaceRequest{Namespace: o.Namespace})
	if err != nil {
		c.Close()
		return nil, unreachable(ctx, o, err)
	}
	return &Server{Client: c, Address: o.HostPort, Namespace: o.Namespace}, nil
}

// unreachable says in words why there is no connection.
func unreachable(ctx context.Context, o client.Options, err error) error {
	var (
		noNamespace *serviceerror.NamespaceNotFound
		denied      *serviceerror.PermissionDenied
	)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &noNamespace):
		return &exit.Error{Code: exit.Failed, Err: fmt.Errorf("no namespace %q on the Temporal server at %s", o.Namespace, o.HostPort),
			Hint: fmt.Sprintf("create it with: temporal operator namespace create --address %s -n %s", o.HostPort, o.Namespace)}
	case errors.As(err, &denied):
		return &exit.Error{Code: exit.Failed, Err: fmt.Errorf("the Temporal server at %s refuses: %w", o.HostPort, err),
			Hint: "see TEMPORAL_API_KEY and TEMPORAL_TLS_* in the environment"}
	}
	return &exit.Error{Code: exit.Failed, Err: &NoServerError{Address: o.HostPort, Cause: err}, Hint: hint(o.HostPort)}
}

func hint(address string) string {
	if address == DefaultAddress || address == "localhost:7233" {
		return "start one with: go run -C devserver ."
	}
	return "give another one with --address or TEMPORAL_ADDRESS, or start one with: go run -C devserver ."
}

// NoServerError reports that nothing answers at an address.
type NoServerError struct {
	Address string
	// Cause is what the transport said, which is seldom of use to people.
	Cause error
}

func (e *NoServerError) Error() string { return "no Temporal server at " + e.Address }

// Unwrap returns the cause.
func (e *NoServerError) Unwrap() error { return e.Cause }

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
