package stdioproc

import (
	"os/exec"
	"strings"
)

// passed says which variables every program gets: without them programs do not start here, or find no folder of their
// own. None of them holds a secret, and nothing else of the worker is passed on.
func passed(name string) bool {
	switch strings.ToUpper(name) {
	case "PATH", "PATHEXT", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "TEMP", "TMP", "USERNAME", "USERPROFILE",
		"HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)",
		"PROGRAMW6432", "COMMONPROGRAMFILES", "PROCESSOR_ARCHITECTURE", "NUMBER_OF_PROCESSORS", "OS", "LANG", "TZ":
		return true
	}
	return false
}

func sameName(a, b string) bool { return strings.EqualFold(a, b) }

// executable returns path with the ending that the system would add.
func executable(path string) (string, error) { return exec.LookPath(path) }
