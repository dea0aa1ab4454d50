//go:build !linux && !darwin

package gitproc

import (
	"os"
	"os/exec"
)

// supported says that this system has process groups and inherited locks. Open refuses where it is false, so that
// the rest of this file is never reached.
const supported = false

const noFollow = 0

func ownGroup(*exec.Cmd) {}

func killGroup(int) {}

func tryLock(*os.File) (bool, error) { return false, os.ErrInvalid }

func wait(cmd *exec.Cmd, kill func()) error { kill(); return cmd.Wait() }

func endHolders(*os.File) {}
