package cassette_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/cassette"
)

// A test records once with the real model, and plays from then on.
func Example() {
	dir, err := os.MkdirTemp("", "cassette")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "greeting.jsonl")
	request := model.Request{Model: "claude", Messages: []model.Message{{Role: model.User, Text: "Greet me."}}}

	recorder, err := cassette.Record(path, says(func(model.Request) (model.Response, error) {
		return model.Response{Text: "Hello!", Stop: model.StopEnd}, nil
	}), cassette.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = recorder.Generate(context.Background(), request)
	if err := recorder.Close(); err != nil {
		fmt.Println(err)
		return
	}

	player, err := cassette.Play(path, cassette.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	turn, err := player.Generate(context.Background(), request)
	fmt.Println(turn.Text, err)
	request.Messages[0].Text = "Insult me."
	_, err = player.Generate(context.Background(), request)
	fmt.Println(err != nil)
	// Output:
	// Hello! <nil>
	// true
}
