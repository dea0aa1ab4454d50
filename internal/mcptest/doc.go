// Package mcptest has MCP servers for tests: a program of our own, good or hostile, the examples of the official Go SDK,
// and servers that people use, from npm. Only tests import it.
//
//	command := mcptest.Command(t, "-tools", "500")          // a server over stdio
//	server := mcptest.Serve(t, "-hostile", "loop")          // a server over HTTP: server.URL
//
// The good server has these tools. Talk: echo{text}, add{a,b} (structured), append{file,line} (an effect to count, which
// calls itself destructive). Content: image, broken_image, audio, resource, blob, link, empty, big{bytes}. Trouble:
// slow{seconds,started,cancelled} (files that get a line: its process id, "cancelled"), crash{file}, fail (isError),
// refuse (an error of the protocol). Itself: pid, cwd, args, environ (names), meta (_meta of the call), client. Its flags and
// the hostile modes stand in server/main.go and server/hostile.go.
//
// Programs are built once for each content and kept in the user's cache folder.
package mcptest
