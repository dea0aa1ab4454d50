// Package pack reads git objects: from packs with version 2 indexes, and loose ones, in any number of object
// folders at once. It reads whatever lies there as if an enemy had written it, because agents can.
//
// The invariants: what Read and Copy deliver without an error has the id that was asked for; damage is a
// [DamagedError] and never a panic; no number in a file makes it take more memory than the file can honestly
// need, nor more than [MaxMemory]. Files are read and not mapped, so that one that is cut short is an error and
// not a signal. Objects that appear while a store is open are found.
package pack
