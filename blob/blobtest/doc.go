// Package blobtest checks that a blob.Store keeps its contract.
//
// The author of a driver calls Run, or RunPlace, from a test. Run needs nothing but the interface. RunPlace also checks what
// can only be seen from behind the driver, with two functions of its author: bytes that were altered in the store, and
// bytes that are old, which is about deleting and is checked of a blob.Inventory.
package blobtest
