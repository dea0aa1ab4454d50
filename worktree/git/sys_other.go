//go:build !linux && !darwin

package git

import (
	"os"
	"time"
)

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

func openTop(string) (int, error) { return -1, os.ErrInvalid }

func openFolderAt(int, string) (int, error) { return -1, os.ErrInvalid }

func makeFolderAt(int, string) error { return os.ErrInvalid }

func makeLinkAt(int, string, string) error { return os.ErrInvalid }

func makeFileAt(int, string, uint32) (int, error) { return -1, os.ErrInvalid }

func openFileAt(int, string) (int, error) { return -1, os.ErrInvalid }

func closeFD(int) error { return os.ErrInvalid }

func statFD(int) (fileStat, bool, error) { return fileStat{}, false, os.ErrInvalid }

func statAt(int, string) (fileStat, error) { return fileStat{}, os.ErrInvalid }

func setTimeAt(int, string, time.Time) error { return os.ErrInvalid }

type fdWriter int

func (fdWriter) Write([]byte) (int, error) { return 0, os.ErrInvalid }

func readFD(int, []byte) error { return os.ErrInvalid }

func removeAll(string) error { return os.ErrInvalid }
