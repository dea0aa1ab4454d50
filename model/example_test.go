package model_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assent-dev/assent/model"
)

// busy is a driver whose provider is overloaded. It makes one attempt; its error says when another may help.
type busy struct{}

func (busy) Generate(context.Context, model.Request) (model.Response, error) {
	return model.Response{}, &model.Error{Kind: "overloaded", Msg: "come back later", Retry: true, After: 2 * time.Second}
}

func ExampleModel() {
	var m model.Model = busy{}
	_, err := m.Generate(context.Background(), model.Request{})
	var failed *model.Error
	if errors.As(err, &failed) {
		fmt.Println(err)
		fmt.Println("retry:", failed.Retry, "after", failed.After)
	}
	// Output:
	// model: overloaded: come back later
	// retry: true after 2s
}
