package mcp_test

import (
	"fmt"

	"github.com/assent-dev/assent/mcp"
)

// What is wrong with a server's configuration is found before it is started.
func Example() {
	_, err := mcp.New(mcp.Config{Name: "files", Command: []string{"server-filesystem", "{dir}"}})
	fmt.Println(err)
	server, err := mcp.New(mcp.Config{Name: "files", Command: []string{"server-filesystem", "{dir}"}, PerDir: true})
	fmt.Println(server.Name(), err)
	// Output:
	// mcp.files.command: "{dir}" has {dir}, which stands for a directory only with perDir
	// files <nil>
}
