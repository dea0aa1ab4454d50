package e2e

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/assent-dev/assent/internal/devserver/devservertest"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		os.Exit(workerMain())
	}
	// These tests wait far more than they compute. A -parallel on the command line wins.
	_ = flag.Set("test.parallel", strconv.Itoa(max(3, runtime.GOMAXPROCS(0))))
	os.Exit(devservertest.Run(m))
}
