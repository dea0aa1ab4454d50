package toolbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
)

func Example() {
	shell, err := toolbox.Shell(toolbox.ShellConfig{
		Deny: func(_ context.Context, argv []string) error {
			if argv[0] == "rm" {
				return errors.New("nothing is removed here")
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for _, command := range []string{"echo hello | tr a-z A-Z", "exit 3", "$(echo rm) -rf /"} {
		input, _ := json.Marshal(map[string]string{"command": command})
		result := shell.Invoke(context.Background(), &tool.Context{Dir: dir}, input)
		if result.IsOK() {
			fmt.Println(result.Code, string(result.Value))
		} else {
			fmt.Println(result.Code, result.Failure.Message)
		}
	}
	// Output:
	// OK {"exitCode":0,"stdout":"HELLO\n","stderr":""}
	// OK {"exitCode":3,"stdout":"","stderr":""}
	// DENIED run "rm -rf /": denied: nothing is removed here
}
