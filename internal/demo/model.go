package demo

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/model/endpoint"
)

// vendors are the providers that a demo can ask, with the variable in which everybody's tools look for their keys.
var vendors = map[string]string{"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}

// Asked is the real model that a demo asks; the zero value is none.
type Asked struct {
	// Provider is a section of the configuration, Model the name of the model in it.
	Provider, Model string
	// BaseURL is empty at the vendor's, KeyEnv if no key is sent.
	BaseURL, KeyEnv string
	// API is written if it is not the provider's first.
	API string
}

// Full is `provider:model`.
func (a Asked) Full() string { return a.Provider + ":" + a.Model }

// Where says to whom the agent's conversation is sent.
func (a Asked) Where() string { return cmp.Or(a.BaseURL, a.Provider) }

// asked reads the model of a plan. Errors are *fault.ConfigError or of usage, in the words of the flags.
func (p *Plan) asked() (Asked, error) {
	of, name, ok := strings.Cut(p.Model, ":")
	if p.Model == "" || p.Model == provider || p.Model == provider+":"+scriptName {
		if p.BaseURL != "" || p.KeyEnv != "" {
			return Asked{}, exit.Usagef("name the model with --model, such as --model openai:qwen3", "--base-url and --key-env are for a real model")
		}
		return Asked{}, nil
	}
	switch {
	case !ok || of == "" || name == "":
		return Asked{}, &fault.ConfigError{Key: "--model", Msg: fmt.Sprintf("%q is not provider:model such as openai:gpt-5.2", p.Model)}
	case of == provider:
		return Asked{}, &fault.ConfigError{Key: "--model", Msg: fmt.Sprintf("unknown script %q; name its file with --script", p.Model),
			Allowed: []string{provider + ":" + scriptName}}
	case vendors[of] == "":
		return Asked{}, exit.WithHint(&fault.ConfigError{Key: "--model", Msg: fmt.Sprintf("unknown provider %q", of), Allowed: []string{"anthropic", "openai", provider}},
			"a server of yours that speaks the API of one of them is named with --base-url: --model openai:qwen3 --base-url http://127.0.0.1:11434/v1")
	case p.Script != "":
		return Asked{}, exit.Usagef("leave one of them out", "--script says what the agent does, and so would %s", p.Model)
	}
	a := Asked{Provider: of, Model: name, BaseURL: p.BaseURL, KeyEnv: p.KeyEnv}
	if a.BaseURL == "" && a.KeyEnv == "" {
		a.KeyEnv = vendors[of]
	}
	if a.BaseURL != "" {
		if _, err := endpoint.BaseURL(a.BaseURL); err != nil {
			return Asked{}, renamed(err, "--base-url")
		}
		if of == "openai" {
			a.API = "chat" // what other servers speak
		}
	}
	if _, err := (endpoint.Key{Env: a.KeyEnv}).Read(); err != nil {
		return Asked{}, exit.WithHint(renamed(err, "--model"), "the key is read from the environment only: export "+a.KeyEnv+"=…")
	}
	return a, nil
}

// renamed says the flag instead of the key of a configuration file.
func renamed(err error, flag string) error {
	var c *fault.ConfigError
	if !errors.As(err, &c) {
		return err
	}
	said := *c
	said.Key = flag
	return &said
}
