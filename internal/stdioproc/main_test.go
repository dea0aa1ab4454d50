package stdioproc

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// workerVariable makes this test program the worker that a test kills: it holds the script to start.
const workerVariable = "STDIOPROC_TEST_WORKER"

// busyVariable has that worker start and close trees without end.
const busyVariable = "STDIOPROC_TEST_BUSY"

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
	if os.Getenv(busyVariable) != "" {
		fmt.Println("started", p.Pid())
		for i := range 4 {
			go func() {
				for {
					p, err := Start(Config{Command: []string{"/bin/sh", "-c", script}, Grace: time.Duration(i) * time.Millisecond})
					if err == nil {
						err = p.Close()
					}
					if err != nil {
						panic(err)
					}
				}
			}()
		}
		select {}
	}
	if os.Getenv(loneVariable) != "" {
		if err := killKeeper(p); err != nil {
			return err
		}
	}
	fmt.Println("started", p.Pid())
	select {}
}
