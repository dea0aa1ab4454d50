package gitproc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// wait waits until the head of a group has ended, kills the others, and reaps it: before that, its number cannot
// be given to somebody else.
func wait(cmd *exec.Cmd, kill func()) error {
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	kill()
	return cmd.Wait()
}

// endHolders kills the processes that have f open and do not run this program. Those that do are a worker that
// waits as this one does, or a child of it between fork and exec.
func endHolders(f *os.File) {
	want, err := f.Stat()
	if err != nil {
		return
	}
	self, _ := os.Readlink("/proc/self/exe")
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || !holds(pid, want) {
			continue
		}
		// The handle keeps its meaning when the number is given away, so it is asked again before the kill.
		p, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if exe, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe")); err == nil && exe != self && holds(pid, want) {
			_ = p.Kill()
		}
		_ = p.Release()
	}
}

// holds reports whether a process has a file open.
func holds(pid int, want os.FileInfo) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if fi, err := os.Stat(filepath.Join(dir, fd.Name())); err == nil && os.SameFile(fi, want) {
			return true
		}
	}
	return false
}
