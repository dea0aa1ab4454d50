package git

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// supported says that this system has the locks and file identities that the driver stands on.
const supported = true

const (
	// openWithoutWaiting keeps an open from blocking on a FIFO that took a file's place.
	openWithoutWaiting = syscall.O_NONBLOCK
	// openFlags keep it from following a link too.
	openFlags = syscall.O_NOFOLLOW | openWithoutWaiting
)

func statOf(fi os.FileInfo) fileStat {
	s, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return fileStat{size: fi.Size(), mode: fi.Mode(), mtime: fi.ModTime().UnixNano()}
	}
	return fileStat{
		dev: uint64(s.Dev), ino: s.Ino, uid: s.Uid, gid: s.Gid, size: s.Size, mode: fi.Mode(),
		mtime: s.Mtim.Nano(), ctime: s.Ctim.Nano(),
	}
}

// allotted is what the file system has set aside for a file, in bytes.
func allotted(fi os.FileInfo) int64 {
	if s, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int64(s.Blocks) * 512
	}
	return fi.Size()
}

// tryLock takes an exclusive lock on f without waiting; it goes with the descriptor, so a killed process holds none.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// bootID names the time between two starts of the machine, empty if it cannot be told.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// syncTree makes everything below the file system of dir durable.
func syncTree(dir string) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
