package procfs_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/assent-dev/assent/internal/procfs"
)

func Example() {
	began := time.Now()
	cmd := exec.Command("sleep", "60")
	cmd.Env = append(os.Environ(), "MARK=mine")
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return
	}
	signal := func(l *procfs.Look) (found int, unclear bool) {
		all, err := l.Others()
		if err != nil {
			return 0, false
		}
		for p := range all {
			carries, told := l.Carries(p, "MARK", "mine")
			unclear = unclear || !told
			if carries {
				found++
				p.Signal(syscall.SIGTERM)
			}
		}
		return found, unclear
	}
	fmt.Println("asked to end:", procfs.Settled(began, signal))
	fmt.Println(cmd.Wait())
	fmt.Println("left:", procfs.Settled(began, signal))
	// Output:
	// asked to end: 1
	// signal: terminated
	// left: 0
}
