package e2e

import (
	"os"
	"testing"

	"github.com/assent-dev/assent/internal/devserver/devservertest"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		os.Exit(workerMain())
	}
	os.Exit(devservertest.Run(m))
}
