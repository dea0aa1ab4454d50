package procfs

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is one that lived when it was read. ID and Start together name it for good.
type Process struct {
	ID, Parent, Session int
	// Start is when it began, in clock ticks since the host was booted.
	Start string
	flags string
}

// Read reports false for a process that is gone or a zombie.
func Read(id int) (Process, bool) {
	text, err := os.ReadFile(file(id, "stat"))
	if err != nil {
		return Process{}, false
	}
	// The name of the program stands in parentheses and may hold anything; the fields after the last one are plain.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return Process{}, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	session, err2 := strconv.Atoi(fields[3])
	return Process{ID: id, Parent: parent, Session: session, Start: fields[19], flags: fields[6]}, err1 == nil && err2 == nil
}

func file(id int, name string) string { return "/proc/" + strconv.Itoa(id) + "/" + name }

// Others returns all that live but the caller's own. It fails where there is no process directory.
func Others() ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return nil, err
	}
	var all []Process
	for _, entry := range entries {
		id, err := strconv.Atoi(entry.Name())
		if err != nil || id == os.Getpid() {
			continue
		}
		if p, ok := Read(id); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// Carries reports whether the process was started with NAME=value in its environment. told is false for one that has no environment
// and may have begun after since: a process that is just becoming another program has none for a moment.
func (p Process) Carries(name, value string, since time.Time) (carries, told bool) {
	environ, err := os.ReadFile(file(p.ID, "environ"))
	switch {
	case err != nil:
		return false, true
	case len(environ) == 0:
		return false, !p.Becoming(time.Since(since))
	}
	mark := name + "=" + value
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if string(entry) == mark {
			return true, true
		}
	}
	return false, true
}

// Becoming reports whether a process that has no environment may be one that was started within that time and is just becoming
// another program: of the kernel and of those that are ending none has one.
func (p Process) Becoming(within time.Duration) bool {
	const exiting, kernel = 0x4, 0x200000 // PF_EXITING, PF_KTHREAD
	if bits, err := strconv.ParseUint(p.flags, 10, 64); err != nil || bits&(exiting|kernel) != 0 {
		return false
	}
	text, err := os.ReadFile("/proc/uptime")
	up, _, _ := strings.Cut(string(text), " ")
	now, errUp := strconv.ParseFloat(up, 64)
	ticks, errStart := strconv.ParseFloat(p.Start, 64)
	if err != nil || errUp != nil || errStart != nil {
		return true
	}
	const perSecond, inexact = 100, 1 // USER_HZ, and seconds
	return now-ticks/perSecond <= within.Seconds()+inexact
}

// Signal reports whether sig was sent: to this process, and to no other that got its number meanwhile. One that is asked to end is
// continued too, because a stopped process could not obey.
func (p Process) Signal(sig syscall.Signal) bool {
	// The handle pins the process; asking again rules out that the number went to another one in between.
	h, err := os.FindProcess(p.ID)
	if err != nil {
		return false
	}
	defer func() { _ = h.Release() }()
	if now, ok := Read(p.ID); !ok || now.Start != p.Start || h.Signal(sig) != nil {
		return false
	}
	if sig == syscall.SIGTERM {
		_ = h.Signal(syscall.SIGCONT)
	}
	return true
}

// becoming is how long a process may take to become another program.
const becoming = 500 * time.Millisecond

// Settled looks until something is found or nothing is unclear any more, and returns how much was found: none only if no process
// may yet turn out to be one.
func Settled(look func() (found int, unclear bool)) int {
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		found, unclear := look()
		if found > 0 || !unclear || time.Since(began) > becoming {
			return found
		}
		time.Sleep(pause)
	}
}
