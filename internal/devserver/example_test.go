package devserver_test

import (
	"context"
	"fmt"
	"os"

	"github.com/assent-dev/assent/internal/devserver"
)

// A command that needs a server of its own, kept in a file.
func Example() {
	ctx := context.Background()
	binary, err := devserver.Locate(ctx, devserver.Options{Progress: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return
	}
	server, err := devserver.Start(ctx, devserver.StartOptions{Binary: binary, DBFile: "assent.db", UI: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return
	}
	defer func() { _ = server.Stop(ctx) }()
	fmt.Println("Temporal at", server.Address(), "web UI at", server.UIURL())
}
