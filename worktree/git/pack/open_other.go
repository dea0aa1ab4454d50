//go:build !unix

package pack

const withoutWaiting = 0
