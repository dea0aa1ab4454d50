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
	signal := func() (found int, unclear bool) {
		all, err := procfs.Others()
		if err != nil {
			return 0, false
		}
		for _, p := range all {
			carries, told := p.Carries("MARK", "mine", began)
			unclear = unclear || !told
			if carries && p.Signal(syscall.SIGTERM) {
				found++
			}
		}
		return found, unclear
	}
	fmt.Println("asked to end:", procfs.Settled(signal))
	fmt.Println(cmd.Wait())
	fmt.Println("left:", procfs.Settled(signal))
	// Output:
	// asked to end: 1
	// signal: terminated
	// left: 0
}
