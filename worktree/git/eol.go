package git

import (
	"bytes"
	"io"
)

// conversion says what happens to the line ends of a file between its blob and the disk. The names are git's.
type conversion int

const (
	convNone      conversion = iota // bytes as they are
	convText                        // CR LF in the file becomes LF in the blob
	convTextCRLF                    // and LF in the blob becomes CR LF in the file
	convAuto                        // as convText, for files that look like text
	convAutoCRLF                    // as convTextCRLF, for files that look like text
	convUndefined                   // not decided by attributes
)

// auto reports that the content has a say.
func (c conversion) auto() bool { return c == convAuto || c == convAutoCRLF }

// onDisk reports that a file may differ from its blob.
func (c conversion) onDisk() bool { return c == convTextCRLF || c == convAutoCRLF }

// convert returns the conversion of a path.
func (s settings) convert(a *attributes, path string) conversion {
	if a.empty() {
		return s.decide(nil)
	}
	return s.decide(a.of(path))
}

// decide returns the conversion of a file with attributes got, by git's rules and in git's order.
func (s settings) decide(got map[string]attrValue) conversion {
	c := textAttr(got["text"])
	if c == convUndefined {
		c = textAttr(got["crlf"])
	}
	eol := got["eol"]
	isLF, isCRLF := eol.kind == attrText && eol.text == "lf", eol.kind == attrText && eol.text == "crlf"
	switch {
	case c == convNone:
		return convNone
	case c == convAuto && isLF:
		return convAuto
	case c == convAuto && isCRLF:
		return convAutoCRLF
	case isLF:
		return convText
	case isCRLF:
		return convTextCRLF
	case c == convTextOnly:
		return convText
	case c == convText && s.crlf():
		return convTextCRLF
	case c == convAuto && s.crlf():
		return convAutoCRLF
	case c == convUndefined && s.AutoCRLF == "true":
		return convAutoCRLF
	case c == convUndefined && s.AutoCRLF == "input":
		return convAuto
	case c == convUndefined:
		return convNone
	}
	return c
}

// convTextOnly is `text=input` of old attribute files, before eol is looked at.
const convTextOnly = convUndefined + 1

func textAttr(v attrValue) conversion {
	switch {
	case v.kind == attrSet:
		return convText
	case v.kind == attrUnset:
		return convNone
	case v.kind == attrText && v.text == "input":
		return convTextOnly
	case v.kind == attrText && v.text == "auto":
		return convAuto
	}
	return convUndefined
}

// crlf reports whether text files without an eol attribute get CR LF on disk.
func (s settings) crlf() bool {
	switch s.AutoCRLF {
	case "true":
		return true
	case "input":
		return false
	}
	return s.EOL == "crlf"
}

// lineStats counts what the conversion of a text depends on.
type lineStats struct {
	nul, cr, lf, crlf   int // cr and lf are those that stand alone
	printable, nonprint int
}

func countLines(data []byte) lineStats {
	var c lineCounter
	_, _ = c.Write(data)
	return c.stats()
}

// lineCounter counts what is written to it.
type lineCounter struct {
	seen lineStats
	last byte
}

func (c *lineCounter) Write(p []byte) (int, error) {
	s := c.seen
	last := c.last
	for _, b := range p {
		switch {
		case b == '\n' && last == '\r':
			s.cr--
			s.crlf++
		case b == '\r':
			s.cr++
		case b == '\n':
			s.lf++
		case b == 0x7f:
			s.nonprint++
		case b >= ' ' || b == '\b' || b == '\t' || b == 0x1b || b == '\f':
			s.printable++
		default:
			s.nonprint++
			if b == 0 {
				s.nul++
			}
		}
		last = b
	}
	c.seen, c.last = s, last
	return len(p), nil
}

func (c *lineCounter) stats() lineStats {
	s := c.seen
	if c.last == 0x1a {
		s.nonprint--
	}
	return s
}

func (s lineStats) binary() bool { return s.cr > 0 || s.nul > 0 || s.printable>>7 < s.nonprint }

// toDisk returns what git would write to disk for a blob.
func (c conversion) toDisk(blob []byte) []byte {
	if !c.onDisk() || len(blob) == 0 {
		return blob
	}
	s := countLines(blob)
	if s.lf == 0 || c.auto() && (s.cr > 0 || s.crlf > 0 || s.binary()) {
		return blob
	}
	out := make([]byte, 0, len(blob)+s.lf)
	for i, b := range blob {
		if b == '\n' && (i == 0 || blob[i-1] != '\r') {
			out = append(out, '\r')
		}
		out = append(out, b)
	}
	return out
}

// toBlob returns what git would store for a file. before returns the blob that the path had, which keeps an
// automatic conversion away from files that are stored with CR LF; it may be nil.
func (c conversion) toBlob(disk []byte, before func() ([]byte, error)) ([]byte, error) {
	if c == convNone || bytes.IndexByte(disk, '\r') < 0 {
		return disk, nil
	}
	strip, err := c.strips(countLines(disk), func() (lineStats, error) {
		if before == nil {
			return lineStats{}, nil
		}
		old, err := before()
		return countLines(old), err
	})
	if err != nil || !strip {
		return disk, err
	}
	return bytes.ReplaceAll(disk, []byte("\r\n"), []byte("\n")), nil
}

// strips reports whether git would store a file without the CR before each LF. before counts the blob that the path
// had.
func (c conversion) strips(s lineStats, before func() (lineStats, error)) (bool, error) {
	if s.crlf == 0 || !c.auto() {
		return s.crlf > 0, nil
	}
	if s.binary() {
		return false, nil
	}
	old, err := before()
	return err == nil && (old.crlf == 0 || old.binary()), err
}

// crStripper passes on what is written to it without the CR before each LF.
type crStripper struct {
	to io.Writer
	// cr is a CR that was held back, since what follows it decides.
	cr  bool
	buf []byte
}

func (w *crStripper) Write(p []byte) (int, error) {
	out := w.buf[:0]
	for _, b := range p {
		if w.cr && b != '\n' {
			out = append(out, '\r')
		}
		if w.cr = b == '\r'; !w.cr {
			out = append(out, b)
		}
	}
	w.buf = out
	if _, err := w.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end passes on what was held back.
func (w *crStripper) end() error {
	if !w.cr {
		return nil
	}
	w.cr = false
	_, err := w.to.Write([]byte{'\r'})
	return err
}
