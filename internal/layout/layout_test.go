package layout

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table into ARCHITECTURE.md")

const root = "../.."

func scanned(t *testing.T) []Package {
	t.Helper()
	packages, err := Scan(root)
	require.NoError(t, err)
	require.NotEmpty(t, packages)
	return packages
}

func none(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

func TestEveryPackageHasItsRow(t *testing.T) { none(t, Unknown(Rooms, scanned(t))) }

func TestArrowsPointDown(t *testing.T) { none(t, Arrows(Rooms, scanned(t))) }

func TestStyle(t *testing.T) { none(t, Style(scanned(t))) }

// What is below PureBelow does not reach the Temporal SDK through a third-party module either.
func TestPureFloorsDoNotReachTemporal(t *testing.T) {
	var pure []string
	for _, r := range Rooms {
		if r.Floor < PureBelow {
			pure = append(pure, "./"+r.Dir)
		}
	}
	cmd := exec.Command("go", append([]string{"list", "-deps", "-f", "{{.ImportPath}}"}, pure...)...)
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	for _, dep := range strings.Fields(string(out)) {
		if strings.HasPrefix(dep, "go.temporal.io/") || strings.HasPrefix(dep, grpc) {
			t.Errorf("a package below floor %d depends on %s: `go mod why %s`", PureBelow, dep, dep)
		}
	}
}

func TestArchitectureShowsTheTable(t *testing.T) {
	file := filepath.Join(root, "ARCHITECTURE.md")
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	want, err := Replace(string(page), Table(Rooms))
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page), "the table in ARCHITECTURE.md is old: go test ./internal/layout -update")
}
