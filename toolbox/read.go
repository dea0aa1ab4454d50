package toolbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/assent-dev/assent/tool"
)

const (
	// maxRead bounds the bytes of one read_file.
	maxRead = 128 << 10
	// maxLines is how many lines read_file returns when no limit is given.
	maxLines = 2000
	// sniffed is how much of a file decides whether it is text.
	sniffed = 8 << 10
)

type readArgs struct {
	Path   string `json:"path" jsonschema_description:"file relative to the working directory"`
	Offset int64  `json:"offset,omitempty" jsonschema:"minimum=0" jsonschema_description:"first line to return, counted from 1; in a binary file the first byte, counted from 0"`
	Limit  int64  `json:"limit,omitempty" jsonschema:"minimum=1" jsonschema_description:"number of lines to return at most, 2000 if absent; in a binary file the number of bytes"`
}

// Page is the result of read_file: a part of one file.
type Page struct {
	Path string `json:"path"`
	// Size is that of the whole file in bytes.
	Size int64 `json:"size"`
	// Unit says what Offset and Next count: lines from 1 in a text, bytes from 0 in a binary file.
	Unit   string `json:"unit"`
	Offset int64  `json:"offset"`
	// Content is the text itself if Encoding is utf-8, else base64.
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
	// Next is the offset of the following page; it is absent at the end of the file.
	Next *int64 `json:"next,omitempty"`
	// CutLine counts the bytes of the last line that are left out because the line alone is longer than a page.
	CutLine int64 `json:"cutLine,omitempty"`
}

func readFile(ctx context.Context, call *tool.Context, in readArgs) (Page, error) {
	name, err := cleanPath(in.Path, false)
	if err != nil {
		return Page{}, err
	}
	root, err := openDir(call)
	if err != nil {
		return Page{}, err
	}
	defer root.Close()
	f, info, err := openRegular(root, name)
	if err != nil {
		return Page{}, err
	}
	defer f.Close()
	head := make([]byte, sniffed)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Page{}, fmt.Errorf("read %q: %w", name, plain(err))
	}
	p := Page{Path: name, Size: info.Size(), Offset: in.Offset}
	if isText(dropCutRune(head[:n])) {
		err = p.readLines(ctx, io.MultiReader(bytes.NewReader(head[:n]), f), in.Limit)
	} else {
		err = p.readBytes(f, in.Limit)
	}
	return p, err
}

// isText reports whether b can be shown as it is.
func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// readBytes fills the page from a binary file.
func (p *Page) readBytes(f *os.File, limit int64) error {
	p.Unit, p.Encoding = "bytes", "base64"
	if p.Offset > p.Size {
		return tool.ModelRetry{Message: fmt.Sprintf("offset %d is behind the end of %q, which has %d bytes", p.Offset, p.Path, p.Size)}
	}
	if limit == 0 || limit > maxRead {
		limit = maxRead
	}
	data, err := io.ReadAll(io.NewSectionReader(f, p.Offset, limit))
	if err != nil {
		return fmt.Errorf("read %q: %w", p.Path, plain(err))
	}
	p.Content = base64.StdEncoding.EncodeToString(data)
	if next := p.Offset + int64(len(data)); next < p.Size && len(data) > 0 {
		p.Next = &next
	}
	return nil
}

// readLines fills the page from a text.
func (p *Page) readLines(ctx context.Context, r io.Reader, limit int64) error {
	p.Unit, p.Offset = "lines", max(p.Offset, 1)
	if limit == 0 {
		limit = maxLines
	}
	var page []byte
	lines := bufio.NewReaderSize(r, 64<<10)
	line := int64(1)
	for ; ; line++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		wanted := line >= p.Offset && line-p.Offset < limit && p.CutLine == 0
		room := 0
		if wanted {
			room = maxRead - len(page)
		}
		text, length, err := nextLine(lines, room)
		if err != nil {
			return fmt.Errorf("read %q: %w", p.Path, plain(err))
		}
		if length == 0 {
			break
		}
		if line < p.Offset {
			continue
		}
		if !wanted || length > int64(len(text)) && len(page) > 0 {
			next := line
			p.Next = &next
			break
		}
		page = append(page, text...)
		p.CutLine = length - int64(len(text))
	}
	if line <= p.Offset && p.Offset > 1 && len(page) == 0 {
		return tool.ModelRetry{Message: fmt.Sprintf("offset %d is behind the end of %q, which has %d lines", p.Offset, p.Path, line-1)}
	}
	p.Content, p.Encoding = string(page), "utf-8"
	if !isText(page) {
		p.Content, p.Encoding = base64.StdEncoding.EncodeToString(page), "base64"
	}
	return nil
}

// nextLine reads one line with its end and returns at most room bytes of it, and its whole length; zero is the end.
func nextLine(r *bufio.Reader, room int) (text []byte, length int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		length += int64(len(part))
		text = append(text, part[:min(len(part), room-len(text))]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, 0, err
		}
		if length > int64(len(text)) {
			text = dropCutRune(text)
		}
		return text, length, nil
	}
}
