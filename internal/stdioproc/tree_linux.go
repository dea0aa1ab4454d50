package stdioproc

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

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

// becoming is how long a process may take to become another program. It has no environment for a moment then, and with it no mark.
const becoming = 500 * time.Millisecond

// signal sends sig to every living process of the tree and returns how many there are. It says that there is none only if no
// process may yet turn out to be one.
func (t *tree) signal(sig syscall.Signal) int {
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		found, unclear := t.look(sig)
		if found > 0 || !unclear || time.Since(began) > becoming {
			return found
		}
		time.Sleep(pause)
	}
}

// look is one look of signal. unclear says that there was a process of which it cannot be told whose it is.
func (t *tree) look(sig syscall.Signal) (found int, unclear bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.head == 0 {
		return 0, false
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		// No process directory. A zombie counts as a member here, so that there is nothing to count.
		t.signalGroup(sig)
		return 0, false
	}
	members, unclear := t.members()
	for pid, start := range members {
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
	return found, unclear
}

// stat is what is needed of a process that lives.
type stat struct {
	parent, session int
	// start is when it began; with the process id it names a process for good.
	start string
	flags string
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
	return stat{parent: parent, session: session, start: fields[19], flags: fields[6]}, err1 == nil && err2 == nil
}

// members returns the processes of the tree with their start times: those that carry the mark, those that were members
// before, those of the session of a member, which is the tree's own, and all that these have started.
// unclear says that there is one without an environment that is not older than the tree.
func (t *tree) members() (own map[int]string, unclear bool) {
	entries, _ := os.ReadDir("/proc")
	all, own, bare := map[int]stat{}, map[int]string{}, []int{}
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
		switch marked, told := t.marked(pid, s); {
		case marked || t.sessions[s.session] || t.seen[pid] == s.start:
			add(pid, s)
		case !told:
			bare = append(bare, pid)
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
	for _, pid := range bare {
		if _, is := own[pid]; !is {
			unclear = true
		}
	}
	return own, unclear
}

// marked reports whether a process carries the mark. told is false for one that has no environment and is not older than the tree.
func (t *tree) marked(pid int, s stat) (marked, told bool) {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	switch {
	case err != nil:
		return false, true
	case len(environ) == 0:
		return false, !s.young(time.Since(t.made))
	}
	mark := markName + "=" + t.mark
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if string(entry) == mark {
			return true, true
		}
	}
	return false, true
}

// young reports whether a process that has no environment may be one that was started in that time and is just becoming another
// program: of the kernel and of those that are ending none has one.
func (s stat) young(within time.Duration) bool {
	const exiting, kernel = 0x4, 0x200000 // PF_EXITING, PF_KTHREAD
	if bits, err := strconv.ParseUint(s.flags, 10, 64); err != nil || bits&(exiting|kernel) != 0 {
		return false
	}
	text, err := os.ReadFile("/proc/uptime")
	up, _, _ := strings.Cut(string(text), " ")
	now, errUp := strconv.ParseFloat(up, 64)
	ticks, errStart := strconv.ParseFloat(s.start, 64)
	if err != nil || errUp != nil || errStart != nil {
		return true
	}
	const perSecond, inexact = 100, 1 // USER_HZ, and seconds
	return now-ticks/perSecond <= within.Seconds()+inexact
}
