// Package worker makes Assent a Temporal Plugin: New for the whole engine, NewGuard for the gate alone.
//
// A Plugin is the only entry, because interceptors cannot be added to a worker that exists. It can be given to a
// client, to a worker or to both, and acts once. Most programs import it through the module's root package.
package worker
