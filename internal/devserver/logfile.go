package devserver

import (
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	// tailBytes and tailLines bound how much of a log an error quotes.
	tailBytes = 16 << 10
	tailLines = 20
)

// logFile is where a server prints. A file and not a pipe, because a detached server goes on printing when this
// process, and with it the reading end of a pipe, is gone.
type logFile struct {
	file *os.File
	// from is where this server's output begins.
	from int64
}

// openLog appends to path, or uses a file without a name if path is empty.
func openLog(path string) (*logFile, error) {
	if path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
		if err != nil {
			return nil, fmt.Errorf("open the log file: %w", err)
		}
		end, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return nil, fmt.Errorf("open the log file: %w", err)
		}
		return &logFile{file: f, from: end}, nil
	}
	f, err := os.CreateTemp("", "assent-devserver-*.log")
	if err != nil {
		return nil, fmt.Errorf("open the log file: %w", err)
	}
	_ = os.Remove(f.Name()) // the open file stays; where that is not possible, so does its name
	return &logFile{file: f}, nil
}

func (l *logFile) close() { _ = l.file.Close() }

// tail returns the last lines.
func (l *logFile) tail() string {
	info, err := l.file.Stat()
	if err != nil {
		return ""
	}
	from := max(l.from, info.Size()-tailBytes)
	text, err := io.ReadAll(io.NewSectionReader(l.file, from, info.Size()-from))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
