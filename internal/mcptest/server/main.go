// Command server is an MCP server for tests: a good one, made with the official SDK, or with -hostile one that
// misbehaves in one way, written by hand because the SDK cannot.
//
//	server                            speaks over stdin and stdout
//	server -http 127.0.0.1:0          prints its URL, then serves streamable HTTP
//	server -tools 500 -page 50        has so many tools more, so many in a page
//	server -hostile loop              its list of tools never ends; see modes in hostile.go
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// options are what the flags say.
type options struct {
	http     string
	json     bool
	token    string
	tools    int
	page     int
	describe string
	children string
	hostile  string
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var o options
	f := flag.NewFlagSet("server", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.http, "http", "", "serve streamable HTTP at this address of this machine and print the URL")
	f.BoolVar(&o.json, "json", false, "over HTTP, answer by JSON bodies and not by event streams")
	f.StringVar(&o.token, "token", "", "over HTTP, refuse requests without this bearer token")
	f.IntVar(&o.tools, "tools", 0, "offer so many tools more, named extra_0000 and so on")
	f.IntVar(&o.page, "page", 100, "tools in a page of a listing")
	f.StringVar(&o.describe, "describe", "", "a file that holds the description of echo, read at each listing")
	f.StringVar(&o.children, "children", "", "leave processes behind that ignore signals and add their ids to this file")
	f.StringVar(&o.hostile, "hostile", "", "misbehave: "+strings.Join(modes, ", "))
	if err := f.Parse(args); err != nil {
		return 2
	}
	if err := serve(ctx, o, stdin, stdout, stderr); err != nil {
		if code := (exitCode)(0); errors.As(err, &code) {
			return int(code)
		}
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	return 0
}

// exitCode is how a server ends that means to.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func serve(ctx context.Context, o options, stdin io.Reader, stdout, stderr io.Writer) error {
	if o.children != "" {
		if err := leave(o.children); err != nil {
			return err
		}
	}
	var handler http.Handler
	if o.hostile != "" {
		h, err := newHostile(o.hostile, stderr)
		if err != nil {
			return err
		}
		if o.http == "" {
			return h.stdio(stdin, stdout)
		}
		handler = h
	} else {
		server := good(o)
		if o.http == "" {
			return server.Run(ctx, &mcp.StdioTransport{})
		}
		handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{JSONResponse: o.json})
	}
	listener, err := net.Listen("tcp", o.http)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "http://%s/mcp\n", listener.Addr())
	// Nobody writes to stdin of such a server: its end is that of the test.
	go func() { _, _ = io.Copy(io.Discard, stdin); os.Exit(0) }()
	return http.Serve(listener, guarded(o.token, handler))
}

// guarded refuses requests without the token.
func guarded(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// leave starts processes that nothing but SIGKILL ends: a child, one that has forked twice, one that has left the session.
func leave(file string) error {
	const live = `trap '' TERM HUP INT; echo $$ >>"$1"; while :; do sleep 1000; done`
	const family = `sh -c "$2" sh "$1" & (sh -c "$2" sh "$1" &); setsid sh -c "$2" sh "$1" &`
	return exec.Command("sh", "-c", family, "sh", file, live).Run()
}
