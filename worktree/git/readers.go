package git

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

// readers are the goroutines that read one tree, at most maxReaders.
type readers struct {
	wg sync.WaitGroup
	// spare is how many more may start.
	spare atomic.Int32
}

const maxReaders = 4

// together lets read hand folders over to other readers, waits for all, and leaves in s what one reader alone would
// have found, in the same order. It returns the first error in that order.
func (s *scan) together(read func() error) error {
	s.readers = new(readers)
	if s.take == nil { // whoever takes what is read takes one file at a time
		s.readers.spare.Store(int32(min(maxReaders, runtime.GOMAXPROCS(0)) - 1))
	}
	s.err = read()
	s.readers.spare.Add(1)
	s.readers.wg.Wait()
	all := new(scan)
	err := all.gather(s)
	s.found, s.warnings, s.ignored, s.muted, s.unlocked = all.found, all.warnings, all.ignored, all.muted, all.unlocked
	s.done, s.err = nil, nil
	return err
}

// gather appends what of and its helpers have found, all of it although one of them failed: what was unlocked is to
// be locked again.
func (s *scan) gather(of *scan) (first error) {
	for _, part := range of.done {
		if err := s.gather(part); first == nil {
			first = err
		}
	}
	s.found = append(s.found, of.found...)
	s.unlocked = append(s.unlocked, of.unlocked...)
	s.muted += of.muted
	for _, w := range of.warnings {
		s.note(&s.warnings, w)
	}
	for _, i := range of.ignored {
		s.note(&s.ignored, i)
	}
	if first == nil {
		first = of.err
	}
	return first
}

// handOver lets another reader read a folder, and close it, if one may start.
func (s *scan) handOver(folder *os.Root, path string, ignored bool) bool {
	if s.readers.spare.Add(-1) < 0 {
		s.readers.spare.Add(1)
		return false
	}
	other := *s
	before := &scan{found: s.found, warnings: s.warnings, ignored: s.ignored, muted: s.muted, unlocked: s.unlocked}
	other.found, other.warnings, other.ignored, other.muted, other.unlocked, other.done = nil, nil, nil, 0, nil, nil
	s.found, s.warnings, s.ignored, s.muted, s.unlocked = nil, nil, nil, 0, nil
	s.done = append(s.done, before, &other)
	s.readers.wg.Go(func() {
		defer s.readers.spare.Add(1)
		defer folder.Close()
		other.err = other.folder(folder, path, ignored)
	})
	return true
}
