package stdioproc

import (
	"fmt"
	"os"
	"testing"
)

// workerVariable makes this test program the worker that a test kills: it holds the script to start.
const workerVariable = "STDIOPROC_TEST_WORKER"

// loneVariable has that worker lose its keeper first.
const loneVariable = "STDIOPROC_TEST_LONE"

func TestMain(m *testing.M) {
	if script := os.Getenv(workerVariable); script != "" {
		fmt.Println(work(script))
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// work starts a tree and waits to be killed.
func work(script string) error {
	p, err := Start(Config{Command: []string{"/bin/sh", "-c", script}})
	if err != nil {
		return err
	}
	if os.Getenv(loneVariable) != "" {
		if err := killKeeper(p); err != nil {
			return err
		}
	}
	fmt.Println("started", p.Pid())
	select {}
}
