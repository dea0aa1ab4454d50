package procfs

import (
	"bytes"
	"errors"
	"io/fs"
	"iter"
	"os"
	"slices"
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
	p, lives := read(id)
	if !lives {
		return Process{}, false
	}
	return p, true
}

// read is Read, and says of a zombie when it began.
func read(id int) (Process, bool) {
	text, err := os.ReadFile(file(id, "stat"))
	if err != nil {
		return Process{}, false
	}
	// The name of the program stands in parentheses and may hold anything; the fields after the last one are plain.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return Process{}, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	session, err2 := strconv.Atoi(fields[3])
	lives := fields[0] != "Z" && fields[0] != "X"
	return Process{ID: id, Parent: parent, Session: session, Start: fields[19], flags: fields[6]}, lives && err1 == nil && err2 == nil
}

func file(id int, name string) string { return "/proc/" + strconv.Itoa(id) + "/" + name }

// Look is a look at the processes of the host, one of those of Settled.
type Look struct {
	since time.Time
	// ended are processes that had ended when it was their turn. missed says that there is a new one: it may have left another one that
	// was not listed yet.
	ended  map[int]bool
	missed bool
}

// Others are all that live but the caller's own, each read when it is its turn, the newest first: one that goes on in another process
// again and again has ended in any other order. It fails where there is no process directory.
func (l *Look) Others() (iter.Seq[Process], error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return nil, err
	}
	var ids []int
	for _, entry := range entries {
		if id, err := strconv.Atoi(entry.Name()); err == nil && id != os.Getpid() {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b int) int { return b - a })
	return func(yield func(Process) bool) {
		for _, id := range ids {
			p, lives := read(id)
			if !lives {
				l.miss(id, p.Start == "" || p.young(l.since))
			} else if !yield(p) {
				return
			}
		}
	}, nil
}

func (l *Look) miss(id int, young bool) {
	l.missed = l.missed || young && !l.ended[id]
	l.ended[id] = true
}

// Carries reports whether the process was started with NAME=value in its environment. told is false for one that has no environment
// and may have begun after the looks' time: a process that is just becoming another program has none for a moment.
func (l *Look) Carries(p Process, name, value string) (carries, told bool) {
	environ, err := os.ReadFile(file(p.ID, "environ"))
	gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) // it has no memory any more, or never had any
	switch {
	case err != nil && !gone:
		return false, true
	case len(environ) == 0 && (gone || p.is(exiting)):
		l.miss(p.ID, p.young(l.since))
		return false, true
	case len(environ) == 0:
		return false, !p.young(l.since)
	}
	mark := name + "=" + value
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if string(entry) == mark {
			return true, true
		}
	}
	return false, true
}

// Flags of a process: PF_EXITING and PF_KTHREAD.
const exiting, kernel = 0x4, 0x200000

func (p Process) is(flag uint64) bool {
	bits, err := strconv.ParseUint(p.flags, 10, 64)
	return err != nil || bits&flag != 0
}

// Becoming reports whether a process that has no environment may be one that was started within that time and is just becoming
// another program: of the kernel and of those that are ending none has one.
func (p Process) Becoming(within time.Duration) bool {
	return !p.is(exiting) && p.young(time.Now().Add(-within))
}

// young reports whether a process may have begun after since, and is none of the kernel.
func (p Process) young(since time.Time) bool {
	if p.is(kernel) {
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
	return now-ticks/perSecond <= time.Since(since).Seconds()+inexact
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

// Settled looks for processes that have begun after since, until something is found or nothing is unclear any more, and returns how
// much was found: none only if no process may yet turn out to be one, or have left one. A look counts what it meets, also if that has ended
// when it is signalled.
func Settled(since time.Time, look func(*Look) (found int, unclear bool)) int {
	began, l := time.Now(), &Look{since: since, ended: map[int]bool{}}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		l.missed = false
		found, unclear := look(l)
		if found > 0 || !unclear && !l.missed || time.Since(began) > becoming {
			return found
		}
		time.Sleep(pause)
	}
}
