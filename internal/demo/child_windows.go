package demo

import (
	"os"
	"os/exec"

	"golang.org/x/sys/windows"
)

// apart keeps a Ctrl-C in the console from cmd.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &windows.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

func holdThread() {}

// terminate ends the process: there is no asking here.
func terminate(p *os.Process) error { return p.Kill() }
