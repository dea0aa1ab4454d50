package toolbox

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sysProcAttr gives a command its own session, so that no terminal of the worker reaches it, and lets the kernel
// end it with the worker.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// becoming is how long a process may take to become another program. It has no environment for a moment then, and with it no mark.
const becoming = 500 * time.Millisecond

// signal sends sig to every living process of the call and returns how many there are. It says that there is none only if no
// process may yet turn out to be one.
func (j *jobs) signal(sig syscall.Signal) int {
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		found, unclear := j.look(sig)
		if found > 0 || !unclear || time.Since(began) > becoming {
			return found
		}
		time.Sleep(pause)
	}
}

// look is one look of signal. unclear says that there was a process of which it cannot be told whose it is.
func (j *jobs) look(sig syscall.Signal) (found int, unclear bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return j.signalGroups(sig), false
	}
	owns := func(pid int) bool {
		own, told := j.owns(pid)
		unclear = unclear || !told
		return own
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || !owns(pid) {
			continue
		}
		// The handle pins the process; asking again rules out that the number went to another one in between.
		p, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if owns(pid) && p.Signal(sig) == nil {
			found++
			if sig == syscall.SIGTERM {
				_ = p.Signal(syscall.SIGCONT)
			}
		}
		_ = p.Release()
	}
	return found, unclear
}

// owns reports whether the living process pid belongs to the call: it carries the mark, or is a member of one of
// the sessions that the call left behind. told is false for one that has no environment and is not older than the call.
func (j *jobs) owns(pid int) (own, told bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return false, true
	}
	// The name of the program stands in parentheses and may hold anything; the fields after the last one are plain.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return false, true
	}
	session, err := strconv.Atoi(fields[3])
	if err != nil {
		return false, true
	}
	j.mu.Lock()
	left := j.left[session]
	j.mu.Unlock()
	if left {
		return true, true
	}
	environ, err := os.ReadFile(dir + "/environ")
	if err != nil {
		return false, true
	}
	if len(environ) == 0 {
		return false, !young(fields[6], fields[19], time.Since(j.began))
	}
	mark := markName + "=" + j.mark
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if string(entry) == mark {
			return true, true
		}
	}
	return false, true
}

// young reports whether a process that has no environment may be one that was started in that time and is just becoming another
// program: of the kernel and of those that are ending none has one. flags and start are fields of its stat.
func young(flags, start string, within time.Duration) bool {
	const exiting, kernel = 0x4, 0x200000 // PF_EXITING, PF_KTHREAD
	if bits, err := strconv.ParseUint(flags, 10, 64); err != nil || bits&(exiting|kernel) != 0 {
		return false
	}
	text, err := os.ReadFile("/proc/uptime")
	up, _, _ := strings.Cut(string(text), " ")
	now, errUp := strconv.ParseFloat(up, 64)
	ticks, errStart := strconv.ParseFloat(start, 64)
	if err != nil || errUp != nil || errStart != nil {
		return true
	}
	const perSecond, inexact = 100, 1 // USER_HZ, and seconds
	return now-ticks/perSecond <= within.Seconds()+inexact
}
