package stdioproc_test

import (
	"fmt"
	"io"

	"github.com/assent-dev/assent/internal/stdioproc"
)

// A program ends when its stdin is closed, and says how it ended.
func Example() {
	p, err := stdioproc.Start(stdioproc.Config{Command: []string{"sh", "-c", "read name; echo hello $name; echo bye >&2; exit 3"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = io.WriteString(p.Stdin, "world\n")
	said, _ := io.ReadAll(p.Stdout)
	fmt.Print(string(said))
	fmt.Println(p.Close(), p.Err())
	// Output:
	// hello world
	// <nil> sh has ended: exit status 3; the end of its stderr:
	// bye
}
