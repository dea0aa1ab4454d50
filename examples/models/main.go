// Command models asks a model of a provider one question and shows the answer as it comes. The driver is the one that an
// agent's worker has; give it to assent.Config.Models under a name of yours, and agents ask for it as name:model.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/anthropic"
	"github.com/assent-dev/assent/model/endpoint"
	"github.com/assent-dev/assent/model/openai"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("models", flag.ContinueOnError)
	flags.SetOutput(stderr)
	api := flags.String("api", "messages", "messages (Anthropic), responses or chat (OpenAI)")
	url := flags.String("base-url", "", "address of another server that speaks it")
	key := flags.String("key-env", "", "environment variable with the key")
	name := flags.String("model", "claude-opus-5", "the provider's name of the model")
	question := flags.String("ask", "Why do we ask before we act?", "the question")
	if flags.Parse(args) != nil {
		return 2
	}
	m, err := driver(*api, endpoint.Config{BaseURL: *url, Key: endpoint.Key{Env: *key}})
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 2
	}
	turn, err := m.Stream(ctx, model.Request{Model: *name, MaxOutputTokens: 500, Messages: []model.Message{{Role: model.User, Text: *question}}},
		func(d model.Delta) { fmt.Fprint(stdout, d.Text) })
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		if e := (*model.Error)(nil); errors.As(err, &e) && e.Retry {
			fmt.Fprintln(stderr, "hint: it may pass; after", e.After)
		}
		return 1
	}
	fmt.Fprintf(stdout, "\n%d tokens in (%d cached), %d out\n", turn.Usage.InputTokens, turn.Usage.CachedInputTokens, turn.Usage.OutputTokens)
	return 0
}

func driver(api string, at endpoint.Config) (model.Streamer, error) {
	if api == "messages" {
		return anthropic.New(anthropic.Config{Endpoint: at})
	}
	return openai.New(openai.Config{API: api, Endpoint: at})
}
