//go:build linux || darwin

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// peakOf returns the most resident memory that a process which has ended ever had, in MB.
func peakOf(p *os.ProcessState) float64 {
	usage, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return megabytes(usage.Maxrss)
}

// peakMemory returns the same of this process. Linux counts what its parent had too, and says its own elsewhere.
func peakMemory() (float64, error) {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		_, rest, ok := strings.Cut(string(status), "VmHWM:")
		var size int64
		if _, err := fmt.Sscan(rest, &size); ok && err == nil {
			return megabytes(size), nil
		}
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return megabytes(usage.Maxrss), nil
}

// processorTime is what this process has used of processors.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// megabytes reads a resident size, which Linux gives in kB and macOS in bytes.
func megabytes(size int64) float64 {
	if runtime.GOOS == "linux" {
		size *= 1024
	}
	return float64(size) / (1 << 20)
}
