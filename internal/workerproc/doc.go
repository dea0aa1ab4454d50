// Package workerproc is the stock worker as a process: everything that a configuration file says, made into one
// Temporal worker that starts, says that it is ready, and stops in an orderly way.
//
// It knows no policy of its own. What can be wrong with a configuration is found before the first task is taken.
// cmd/worker and the hidden command `starter worker` run it; tests and the demo start it with Start.
package workerproc
