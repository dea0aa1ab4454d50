package stdioproc

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
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

// signal sends sig to every living process of the tree and returns how many there are.
func (t *tree) signal(sig syscall.Signal) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.head == 0 {
		return 0
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		// No process directory. A zombie counts as a member here, so that there is nothing to count.
		t.signalGroup(sig)
		return 0
	}
	found := 0
	for pid, start := range t.members() {
		// The handle pins the process; asking again rules out that the number went to another one in between.
		p, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if now, ok := readStat(pid); ok && now.start == start && p.Signal(sig) == nil {
			found++
			if sig == syscall.SIGTERM {
				_ = p.Signal(syscall.SIGCONT) // a stopped process could not obey
			}
		}
		_ = p.Release()
	}
	return found
}

// stat is what is needed of a process that lives.
type stat struct {
	parent, session int
	// start is when it began; with the process id it names a process for good.
	start string
}

// readStat reports false for a process that is gone or a zombie.
func readStat(pid int) (stat, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	// The name of the program stands in parentheses and may hold anything; the fields after the last one are plain.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return stat{}, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	session, err2 := strconv.Atoi(fields[3])
	return stat{parent: parent, session: session, start: fields[19]}, err1 == nil && err2 == nil
}

// members returns the processes of the tree with their start times: those that carry the mark, those that were members
// before, those of the session of a member, which is the tree's own, and all that these have started.
func (t *tree) members() map[int]string {
	entries, _ := os.ReadDir("/proc")
	all, own := map[int]stat{}, map[int]string{}
	add := func(pid int, s stat) {
		own[pid], t.seen[pid], t.sessions[s.session] = s.start, s.start, true
	}
	t.sessions[t.head] = true
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		s, ok := readStat(pid)
		if !ok {
			continue
		}
		all[pid] = s
		if t.sessions[s.session] || t.seen[pid] == s.start || t.marked(pid) {
			add(pid, s)
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, s := range all {
			_, is := own[pid]
			_, child := own[s.parent]
			if !is && (child || t.sessions[s.session]) {
				add(pid, s)
				grown = true
			}
		}
	}
	return own
}

// marked reports whether a process carries the mark.
func (t *tree) marked(pid int) bool {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	mark := markName + "=" + t.mark
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if string(entry) == mark {
			return true
		}
	}
	return false
}
