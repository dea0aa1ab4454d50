package main

import (
	"os"
	"strings"
)

// load is how many tasks wanted to run in the last minute and the last five.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	f := strings.Fields(string(b))
	return strings.Join(f[:min(2, len(f))], " ")
}
