//go:build !linux && !darwin

package git

import "os"

// supported says that this system has the locks and file identities that the driver stands on. New refuses
// where it is false, so that the rest of this file is never reached.
const supported = false

const openWithoutWaiting, openFlags = 0, 0

func statOf(fi os.FileInfo) fileStat {
	return fileStat{size: fi.Size(), mode: fi.Mode(), mtime: fi.ModTime().UnixNano()}
}

func allotted(fi os.FileInfo) int64 { return fi.Size() }

func tryLock(*os.File) (bool, error) { return false, os.ErrInvalid }

func freeBytes(string) (int64, error) { return 0, os.ErrInvalid }

func bootID() string { return "" }

func syncTree(string) error { return os.ErrInvalid }
