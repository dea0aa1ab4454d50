package scripted_test

import (
	"context"
	"fmt"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/model/scripted"
)

func Example() {
	m, err := scripted.Parse("hello.yaml", []byte("turns: [{say: Hello.}, {say: Bye.}]"))
	if err != nil {
		fmt.Println(err)
		return
	}
	talk := []model.Message{{Role: model.User, Text: "hi"}}
	for range 3 {
		turn, err := m.Generate(context.Background(), model.Request{Messages: talk})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(turn.Text)
		talk = append(talk, model.Message{Role: model.Assistant, Text: turn.Text})
	}
	// Output:
	// Hello.
	// Bye.
	// model: script_ended: script "hello.yaml" has 2 turns and turn 3 was asked for
}
