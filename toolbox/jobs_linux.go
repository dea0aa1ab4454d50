package toolbox

import (
	"syscall"

	"github.com/assent-dev/assent/internal/procfs"
)

// sysProcAttr gives a command its own session, so that no terminal of the worker reaches it, and lets the kernel
// end it with the worker.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// signal sends sig to every living process of the call and returns how many there are. It says that there is none only if no
// process may yet turn out to be one, or have left one.
func (j *jobs) signal(sig syscall.Signal) int {
	return procfs.Settled(j.began, func(l *procfs.Look) (int, bool) { return j.look(l, sig) })
}

// look is one look of signal. unclear says that there was a process of which it cannot be told whose it is.
func (j *jobs) look(l *procfs.Look, sig syscall.Signal) (found int, unclear bool) {
	all, err := l.Others()
	if err != nil {
		return j.signalGroups(sig), false
	}
	for p := range all {
		own, told := j.owns(l, p)
		unclear = unclear || !told
		if own {
			found++
			p.Signal(sig)
		}
	}
	return found, unclear
}

// owns reports whether a process belongs to the call: it carries the mark, or is a member of one of the sessions that the call
// left behind. told is false for one that has no environment and is not older than the call.
func (j *jobs) owns(l *procfs.Look, p procfs.Process) (own, told bool) {
	j.mu.Lock()
	left := j.left[p.Session]
	j.mu.Unlock()
	if left {
		return true, true
	}
	return l.Carries(p, markName, j.mark)
}
