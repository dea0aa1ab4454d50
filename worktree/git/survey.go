package git

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// survey is a shared state that is being read. What an agent can write leads it to any folder of the machine, in a circle
// or to files of any size, so that it looks at so much and not more.
type survey struct {
	sharedState
	// files and bytes are what may still be looked at.
	files int
	bytes int64
}

const (
	mostSurveyed      = 20_000
	mostSurveyedBytes = 256 << 20
	// configWeight is how much more than its size a configuration counts: it becomes a digest for each of its settings.
	configWeight = 63
	// moreSurveyed is the key that says that there was more.
	moreSurveyed = "more files than are looked at"
)

func newSurvey() *survey {
	return &survey{sharedState: sharedState{}, files: mostSurveyed, bytes: mostSurveyedBytes}
}

var errSurveyed = errors.New("enough was looked at")

// one takes one file or folder from what may be looked at, and reports whether it may.
func (s *survey) one() bool {
	if s.files == 0 || s.bytes <= 0 {
		s.sharedState[moreSurveyed] = risky
		return false
	}
	s.files--
	return true
}

// read is readOptional within the bounds.
func (s *survey) read(path string) (string, error) {
	if !s.one() {
		return "", errSurveyed
	}
	text, err := readUpTo(path, s.bytes)
	s.bytes -= int64(len(text))
	if errors.Is(err, errTooLarge) {
		s.sharedState[moreSurveyed] = risky
	}
	return string(text), err
}

var errTooLarge = errors.New("it is too large")

// readUpTo reads a file of at most so many bytes that an agent may have replaced: it does not wait for a FIFO.
func readUpTo(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openWithoutWaiting, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%q: %w", path, fs.ErrInvalid)
	}
	if fi.Size() > most {
		return nil, fmt.Errorf("%q: %w", path, errTooLarge)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%q: %w", path, errTooLarge)
	}
	return text, err
}
