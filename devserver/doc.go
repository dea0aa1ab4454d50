// Command devserver is a Temporal server with its web UI in one process, for development, the demo and the tests.
//
// It exists so that a machine with nothing but Go can run everything in this repository. It is a module of its own,
// so that whoever uses the library does not get the server among their dependencies.
//
//	go run -C devserver .                                   # 127.0.0.1:7233, UI on 8233, everything in memory
//	devserver server start-dev --port 7000 --db-filename f  # the flags of `temporal server start-dev`
//
// The argument list is that of the real Temporal command for what the Temporal SDK's testsuite.StartDevServer and
// this repository use of it, so that either program can stand in for the other.
//
// What it runs is written in temporal-dev.yaml, found through TEMPORAL_DEV_CONFIG, or in the working directory or
// the nearest directory above it.
//
// Exit codes: 0 after SIGINT or SIGTERM, 1 if the server could not be started or failed, 2 for wrong arguments.
package main
