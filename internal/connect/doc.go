// Package connect opens a client to a Temporal server, or says in words why it cannot, in a few seconds.
//
// Where a value comes from, the strongest first: a flag, a TEMPORAL_* variable, the caller's own file, the profile in
// temporal.toml, the default. All commands and the stock worker use it, so that they mean the same server.
package connect
