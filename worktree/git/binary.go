package git

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
)

const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// lineBytes is how many bytes one line of a binary patch holds.
const lineBytes = 52

// literalWriter writes lines of a binary patch: a letter for the length, then the bytes in git's base 85.
type literalWriter struct {
	out  *bytes.Buffer
	line [lineBytes]byte
	n    int
}

func (w *literalWriter) Write(p []byte) (int, error) {
	size := len(p)
	for len(p) > 0 {
		k := copy(w.line[w.n:], p)
		p = p[k:]
		if w.n += k; w.n == lineBytes {
			w.flush()
		}
	}
	return size, nil
}

func (w *literalWriter) flush() {
	if w.n == 0 {
		return
	}
	if w.n <= 26 {
		w.out.WriteByte(byte('A' + w.n - 1))
	} else {
		w.out.WriteByte(byte('a' + w.n - 27))
	}
	for i := w.n; i < lineBytes; i++ {
		w.line[i] = 0
	}
	for i := 0; i < w.n; i += 4 {
		v := uint32(w.line[i])<<24 | uint32(w.line[i+1])<<16 | uint32(w.line[i+2])<<8 | uint32(w.line[i+3])
		var five [5]byte
		for j := 4; j >= 0; j-- {
			five[j] = base85[v%85]
			v /= 85
		}
		w.out.Write(five[:])
	}
	w.out.WriteByte('\n')
	w.n = 0
}

// writeLiteral appends one side of a `GIT binary patch`: size bytes that write delivers.
func writeLiteral(out *bytes.Buffer, size int64, write func(io.Writer) error) error {
	fmt.Fprintf(out, "literal %d\n", size)
	lines := &literalWriter{out: out}
	z := zlib.NewWriter(lines)
	if err := write(z); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	lines.flush()
	out.WriteByte('\n')
	return nil
}
