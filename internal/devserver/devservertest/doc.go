// Package devservertest gives tests a Temporal server: one per test process, started by the first test that asks.
//
// A test that needs a server fails where there is none; it is never skipped. Tests share the server and its
// namespace, so they choose workflow ids and task queues that nobody else has. A test that kills or restarts its
// server starts one of its own with devserver.Start.
package devservertest
