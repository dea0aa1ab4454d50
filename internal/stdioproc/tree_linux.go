package stdioproc

import (
	"iter"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/assent-dev/assent/internal/procfs"
)

// sysProcAttr gives the program a session of its own, and lets the kernel end it with the thread that started it.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// wait waits until the head has ended, has the rest ended, and reaps the head: as long as it is a zombie, its number,
// which is that of its session, goes to nobody else.
func wait(cmd *exec.Cmd, rest func()) error {
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	rest()
	return cmd.Wait()
}

// signal sends sig to every living process of the tree and returns how many there are. It says that there is none only if no
// process may yet turn out to be one, or have left one.
func (t *tree) signal(sig syscall.Signal) int {
	return procfs.Settled(t.made, func(l *procfs.Look) (int, bool) { return t.look(l, sig) })
}

// look is one look of signal. unclear says that there was a process of which it cannot be told whose it is.
func (t *tree) look(l *procfs.Look, sig syscall.Signal) (found int, unclear bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.head == 0 {
		return 0, false
	}
	all, err := l.Others()
	if err != nil {
		// No process directory. A zombie counts as a member here, so that there is nothing to count.
		t.signalGroup(sig)
		return 0, false
	}
	sent := map[int]bool{}
	members, unclear := t.members(l, all, func(p procfs.Process) { sent[p.ID] = true; p.Signal(sig) })
	for _, p := range members {
		if !sent[p.ID] {
			p.Signal(sig)
		}
	}
	return len(members), unclear
}

// members returns the processes of the tree: those that carry the mark, those that were members before, those of the session of a
// member, which is the tree's own, and all that these have started.
// unclear says that there is one without an environment that is not older than the tree. met is told of one that is known by itself
// at once, after what it has started was read.
func (t *tree) members(l *procfs.Look, others iter.Seq[procfs.Process], met func(procfs.Process)) (own map[int]procfs.Process, unclear bool) {
	own = map[int]procfs.Process{}
	var all []procfs.Process
	add := func(p procfs.Process) {
		own[p.ID], t.seen[p.ID], t.sessions[p.Session] = p, p.Start, true
	}
	t.sessions[t.head] = true
	var bare []int
	for p := range others {
		all = append(all, p)
		switch marked, told := l.Carries(p, markName, t.mark); {
		case marked || t.sessions[p.Session] || t.seen[p.ID] == p.Start:
			add(p)
			met(p)
		case !told:
			bare = append(bare, p.ID)
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			_, is := own[p.ID]
			_, child := own[p.Parent]
			if !is && (child || t.sessions[p.Session]) {
				add(p)
				grown = true
			}
		}
	}
	for _, id := range bare {
		if _, is := own[id]; !is {
			unclear = true
		}
	}
	return own, unclear
}
