package toolbox

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// sysProcAttr gives a command its own session, so that no terminal of the worker reaches it, and lets the kernel
// end it with the worker.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// signal sends sig to every living process of the call and returns how many there are.
func (j *jobs) signal(sig syscall.Signal) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return j.signalGroups(sig)
	}
	found := 0
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || !j.owns(pid) {
			continue
		}
		// The handle pins the process; asking again rules out that the number went to another one in between.
		p, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if j.owns(pid) && p.Signal(sig) == nil {
			found++
			if sig == syscall.SIGTERM {
				_ = p.Signal(syscall.SIGCONT)
			}
		}
		_ = p.Release()
	}
	return found
}

// owns reports whether the living process pid belongs to the call: it carries the mark, or is a member of one of
// the sessions that the call left behind.
func (j *jobs) owns(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return false
	}
	// The name of the program stands in parentheses and may hold anything; the fields after the last one are plain.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 4 || fields[0] == "Z" || fields[0] == "X" {
		return false
	}
	session, err := strconv.Atoi(fields[3])
	if err != nil {
		return false
	}
	j.mu.Lock()
	left := j.left[session]
	j.mu.Unlock()
	if left {
		return true
	}
	environ, err := os.ReadFile(dir + "/environ")
	if err != nil {
		return false
	}
	mark := markName + "=" + j.mark
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if string(entry) == mark {
			return true
		}
	}
	return false
}
