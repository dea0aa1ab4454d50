// Package blobtest checks that a blob.Store keeps its contract.
//
// The author of a driver calls Run from a test. The suite needs nothing but the interface.
package blobtest
