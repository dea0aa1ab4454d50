//go:build linux || darwin

package git

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// folder descriptors: each call takes one name below an open folder and follows nothing. They spare what os.Root
// does beside the calls to the system, for every one of many thousand files.

// again repeats a call that a signal interrupted.
func again[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if !errors.Is(err, unix.EINTR) {
			return v, err
		}
	}
}

// failedAt says which call failed on which name, as package os does.
func failedAt(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}

// openTop opens a folder by its path.
func openTop(path string) (int, error) {
	fd, err := again(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	return fd, failedAt("open", path, err)
}

func openFolderAt(dir int, name string) (int, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	return fd, failedAt("open", name, err)
}

func makeFolderAt(dir int, name string) error {
	return failedAt("mkdir", name, unix.Mkdirat(dir, name, 0o777))
}

func makeLinkAt(dir int, name, to string) error {
	return failedAt("symlink", name, unix.Symlinkat(to, dir, name))
}

// makeFileAt makes a file that does not exist.
func makeFileAt(dir int, name string, perm uint32) (int, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	})
	return fd, failedAt("create", name, err)
}

// openFileAt opens what may be a file, without waiting for a FIFO.
func openFileAt(dir int, name string) (int, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	return fd, failedAt("open", name, err)
}

func closeFD(fd int) error { return unix.Close(fd) }

// statFD returns what the system says of an open file, and whether it is a regular one.
func statFD(fd int) (fileStat, bool, error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return fileStat{}, false, os.NewSyscallError("fstat", err)
	}
	return statOfUnix(&s), s.Mode&unix.S_IFMT == unix.S_IFREG, nil
}

func statAt(dir int, name string) (fileStat, error) {
	var s unix.Stat_t
	if err := unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fileStat{}, failedAt("lstat", name, err)
	}
	return statOfUnix(&s), nil
}

func statOfUnix(s *unix.Stat_t) fileStat {
	return fileStat{
		dev: uint64(s.Dev), ino: s.Ino, uid: s.Uid, gid: s.Gid, size: s.Size, mtime: s.Mtim.Nano(), ctime: s.Ctim.Nano(),
	}
}

// setTimeAt sets the times of a name, not those of what it may lead to.
func setTimeAt(dir int, name string, t time.Time) error {
	ts, err := unix.TimeToTimespec(t)
	if err == nil {
		err = unix.UtimesNanoAt(dir, name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
	}
	return failedAt("utimes", name, err)
}

// fdWriter writes to an open file.
type fdWriter int

func (w fdWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := again(func() (int, error) { return unix.Write(int(w), p[done:]) })
		if err != nil {
			return done, os.NewSyscallError("write", err)
		}
		if n == 0 {
			return done, io.ErrShortWrite
		}
		done += n
	}
	return done, nil
}

// readFD reads exactly len(buf) bytes from the beginning of an open file.
func readFD(fd int, buf []byte) error {
	done := 0
	for done < len(buf) {
		n, err := again(func() (int, error) { return unix.Pread(fd, buf[done:], int64(done)) })
		if err != nil {
			return os.NewSyscallError("read", err)
		}
		if n == 0 {
			return errors.New("it is shorter than it was")
		}
		done += n
	}
	return nil
}
