// Package layout is the map of this module and the test of it: every package has a floor and imports only from
// floors below its own.
//
// A new package, a new arrow or a new third-party module is a line in [Rooms] with its reason; the test says which
// line is missing. The same table is printed in ARCHITECTURE.md:
//
//	go test ./internal/layout -update
//
// Only code that ships is held to the floors: a test may import what it needs. Imports are read from the sources
// of all platforms, not from one build.
package layout
