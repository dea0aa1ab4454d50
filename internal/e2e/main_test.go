package e2e

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/assent-dev/assent/internal/devserver/devservertest"
)

// atOnce is how many tests run at a time, unless -parallel says it. It is no matter of cores: they wait for clocks,
// timeouts and processes. The few that compute for seconds are not parallel, so go test runs them before, one by one.
const atOnce = 8

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		os.Exit(workerMain())
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
			panic(err)
		}
	}
	os.Exit(devservertest.Run(m))
}
