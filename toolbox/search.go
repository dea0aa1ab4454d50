package toolbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/assent-dev/assent/tool"
)

const (
	// maxMatches is how many lines search_files returns.
	maxMatches = 200
	// maxMatchText bounds the text of one of them in bytes.
	maxMatchText = 400
	// maxSearched bounds the size of a file that is searched.
	maxSearched = 8 << 20
)

type searchArgs struct {
	Query string `json:"query" jsonschema:"minLength=1" jsonschema_description:"text to find in a line"`
	Dir   string `json:"dir,omitempty" jsonschema_description:"directory to search, relative to the working directory; empty is all of it"`
	Regex bool   `json:"regex,omitempty" jsonschema_description:"query is a regular expression in RE2 syntax"`
}

// Matches is the result of search_files, in the order of the paths and lines.
type Matches struct {
	Matches []Match `json:"matches"`
	// Truncated is true when there are more matches than the 200 shown; search a smaller directory or more exactly.
	Truncated bool `json:"truncated"`
	// Files counts the text files that were searched; Binary, Large and Unreadable those that were not.
	Files      int `json:"files"`
	Binary     int `json:"binary,omitempty"`
	Large      int `json:"large,omitempty"`
	Unreadable int `json:"unreadable,omitempty"`
}

// Match is one line that holds the query.
type Match struct {
	Path string `json:"path"`
	// Line counts from 1 and is an offset for read_file.
	Line int64 `json:"line"`
	// Text is the line without its end, cut with a mark if it is long.
	Text string `json:"text"`
}

func searchFiles(ctx context.Context, call *tool.Context, in searchArgs) (Matches, error) {
	dir, err := cleanPath(in.Dir, true)
	if err != nil {
		return Matches{}, err
	}
	s := &search{find: func(line []byte) int { return bytes.Index(line, []byte(in.Query)) }, found: Matches{Matches: []Match{}}}
	if in.Regex {
		re, err := regexp.Compile(in.Query)
		if err != nil {
			return Matches{}, tool.ModelRetry{Message: fmt.Sprintf("query %q: %v", in.Query, err)}
		}
		s.find = func(line []byte) int {
			if at := re.FindIndex(line); at != nil {
				return at[0]
			}
			return -1
		}
	}
	if s.root, err = openDir(call); err != nil {
		return Matches{}, err
	}
	defer s.root.Close()
	// The walk does not follow links, so the directory it begins at is resolved.
	real, err := resolve(s.root, dir)
	if err == nil {
		_, err = s.root.Stat(real)
	}
	if err != nil {
		return Matches{}, fmt.Errorf("search %q: %w", dir, plain(err))
	}
	s.dir, s.real = dir, real
	err = fs.WalkDir(s.root.FS(), real, func(name string, e fs.DirEntry, err error) error { return s.visit(ctx, name, e, err) })
	if err != nil && !errors.Is(err, errEnough) {
		return Matches{}, err
	}
	return s.found, nil
}

// errEnough ends a walk that has found all it may return.
var errEnough = errors.New("enough matches")

type search struct {
	root *os.Root
	// dir is the directory as the model named it and real what it stands for.
	dir, real string
	find      func(line []byte) int
	found     Matches
}

func (s *search) visit(ctx context.Context, name string, e fs.DirEntry, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		s.found.Unreadable++
		if e != nil && e.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if e.IsDir() {
		if isGit(e.Name()) {
			return fs.SkipDir
		}
		return nil
	}
	if !e.Type().IsRegular() {
		return nil
	}
	f, info, err := openRegular(s.root, name)
	if err != nil {
		s.found.Unreadable++
		return nil
	}
	defer f.Close()
	if info.Size() > maxSearched {
		s.found.Large++
		return nil
	}
	return s.file(f, s.shown(name))
}

// shown is the path below the directory as the model named it.
func (s *search) shown(name string) string {
	return path.Join(s.dir, strings.TrimPrefix(strings.TrimPrefix(name, s.real), "/"))
}

func (s *search) file(f *os.File, name string) error {
	r := bufio.NewReaderSize(f, sniffed)
	if head, _ := r.Peek(sniffed); !isText(dropCutRune(head)) {
		s.found.Binary++
		return nil
	}
	s.found.Files++
	for line := int64(1); ; line++ {
		text, length, err := nextLine(r, maxSearched)
		if err != nil {
			s.found.Unreadable++
			return nil
		}
		if length == 0 {
			return nil
		}
		text = bytes.TrimRight(text, "\r\n")
		at := s.find(text)
		if at < 0 {
			continue
		}
		if len(s.found.Matches) == maxMatches {
			s.found.Truncated = true
			return errEnough
		}
		s.found.Matches = append(s.found.Matches, Match{Path: strings.ToValidUTF8(name, "\uFFFD"), Line: line, Text: excerpt(text, at)})
	}
}

// excerpt shows a line around the place of the match.
func excerpt(line []byte, at int) string {
	text, before, after := line, "", ""
	if len(line) > maxMatchText {
		from := max(0, min(at-maxMatchText/4, len(line)-maxMatchText))
		for from > 0 && !utf8.RuneStart(line[from]) {
			from--
		}
		to := min(len(line), from+maxMatchText)
		text = dropCutRune(line[from:to])
		if from > 0 {
			before = "[...]"
		}
		if to < len(line) {
			after = "[...]"
		}
	}
	return before + strings.ToValidUTF8(string(text), "\uFFFD") + after
}
