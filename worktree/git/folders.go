package git

import (
	"os"
	"strings"
)

// openFolder opens a folder below root. By its bare name it would be opened even if it is no folder, and a FIFO that took
// its place would be waited for without end.
func openFolder(root *os.Root, name string) (*os.Root, error) { return root.OpenRoot(name + "/.") }

// openTopFolder opens a folder by its path, in the same way.
func openTopFolder(path string) (*os.Root, error) { return os.OpenRoot(path + "/.") }

// folderStack holds open the folders on the way to the one in use, so that each step is one name.
type folderStack struct {
	names []string
	roots []*os.Root // one more than names
}

// newStack takes over root.
func newStack(root *os.Root) *folderStack {
	return &folderStack{roots: []*os.Root{root}}
}

// enter returns the folder of a slash-separated path below the first one. It is good until the next enter.
func (s *folderStack) enter(path string) (*os.Root, error) {
	depth := 0
	rest := path
	for depth < len(s.names) && rest != "" {
		name, after, _ := strings.Cut(rest, "/")
		if name != s.names[depth] {
			break
		}
		rest = after
		depth++
	}
	for len(s.names) > depth {
		s.pop()
	}
	for rest != "" {
		name, after, _ := strings.Cut(rest, "/")
		top := s.roots[len(s.roots)-1]
		next, err := openFolder(top, name)
		if err != nil {
			return nil, err
		}
		s.names = append(s.names, name)
		s.roots = append(s.roots, next)
		rest = after
	}
	return s.roots[len(s.roots)-1], nil
}

func (s *folderStack) pop() {
	s.roots[len(s.roots)-1].Close()
	s.roots = s.roots[:len(s.roots)-1]
	s.names = s.names[:len(s.names)-1]
}

func (s *folderStack) close() {
	for len(s.names) > 0 {
		s.pop()
	}
	s.roots[0].Close()
}

// fdStack is a folderStack of descriptors.
type fdStack struct {
	names []string
	fds   []int // one more than names
}

// newFDStack opens the folder that a stack stands on.
func newFDStack(path string) (*fdStack, error) {
	fd, err := openTop(path)
	if err != nil {
		return nil, err
	}
	return &fdStack{fds: []int{fd}}, nil
}

// enter returns the descriptor of a slash-separated path below the first folder. It is good until the next enter.
func (s *fdStack) enter(path string) (int, error) {
	depth, rest := 0, path
	for depth < len(s.names) && rest != "" {
		name, after, _ := strings.Cut(rest, "/")
		if name != s.names[depth] {
			break
		}
		rest = after
		depth++
	}
	for len(s.names) > depth {
		s.pop()
	}
	for rest != "" {
		name, after, _ := strings.Cut(rest, "/")
		fd, err := openFolderAt(s.fds[len(s.fds)-1], name)
		if err != nil {
			return -1, err
		}
		s.names = append(s.names, name)
		s.fds = append(s.fds, fd)
		rest = after
	}
	return s.fds[len(s.fds)-1], nil
}

func (s *fdStack) pop() {
	_ = closeFD(s.fds[len(s.fds)-1])
	s.fds = s.fds[:len(s.fds)-1]
	s.names = s.names[:len(s.names)-1]
}

func (s *fdStack) close() {
	for len(s.names) > 0 {
		s.pop()
	}
	_ = closeFD(s.fds[0])
}
