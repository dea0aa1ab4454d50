package git

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// mountedBelow returns a path below dir, a real path, at which another file system or folder is mounted, empty if there is
// none. Deleting dir would delete what is mounted there.
func mountedBelow(dir string) (string, error) {
	list, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(list)) {
		// The fifth field is where it is mounted.
		if fields := strings.Fields(line); len(fields) > 4 {
			if at := unescape.Replace(fields[4]); strings.HasPrefix(at, dir+"/") {
				return at, nil
			}
		}
	}
	return "", nil
}
