// Package e2e holds the end-to-end tests: a real Temporal server, real workers, real git, and history as the witness.
package e2e
