//go:build unix

package pack

import "syscall"

const withoutWaiting = syscall.O_NONBLOCK
