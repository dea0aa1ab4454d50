// Package procfs tells which processes of a Linux host live and which of them carry a mark in their environment, and signals one
// without ever meeting another that got its number.
//
// Elsewhere there is no such directory, and the package is empty.
package procfs
