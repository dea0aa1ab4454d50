// Package demo keeps a demonstration alive: a Temporal server, a worker process and a repository of its own, all in
// one folder, so that an agent can be shown at work on a machine that has none of them.
//
// What belongs to a demo lies in its folder: the database, the worker's configuration, the script, the trees and the
// blobs. So a demo that was left waiting is brought up again by its id, by another process and days later. A demo of
// its own server reads no TEMPORAL_* variable and no profile, and listens on this machine only. Server and worker end
// with the process that brought them up, on Linux however that ends, and one process at a time may do so.
//
// cmd/starter shows what happens; nothing here prints.
package demo
