package pack

import (
	"encoding/binary"
	"errors"
)

var errDelta = errors.New("a delta is wrong")

// deltaHead reads the sizes that a delta wants of its base and promises of its result, and returns the rest.
func deltaHead(delta []byte) (base, result int64, rest []byte, err error) {
	b, n := binary.Uvarint(delta)
	if n <= 0 {
		return 0, 0, nil, errDelta
	}
	r, m := binary.Uvarint(delta[n:])
	if m <= 0 || b>>62 != 0 || r>>62 != 0 {
		return 0, 0, nil, errDelta
	}
	return int64(b), int64(r), delta[n+m:], nil
}

// applyDelta makes an object of its base. Nothing is allocated before every instruction is known to be within
// its bounds and all of them together to make what the delta promises.
func applyDelta(base, delta []byte) ([]byte, error) {
	want, size, code, err := deltaHead(delta)
	if err != nil || want != int64(len(base)) {
		return nil, errDelta
	}
	if size > MaxMemory {
		return nil, &TooLargeError{size}
	}
	left := size
	for rest := code; len(rest) > 0; {
		from, n, length, ok := instruction(rest)
		if !ok || from >= 0 && from+n > int64(len(base)) || n > left {
			return nil, errDelta
		}
		left -= n
		rest = rest[length:]
	}
	if left != 0 {
		return nil, errDelta
	}
	out := make([]byte, 0, size)
	for len(code) > 0 {
		from, n, length, _ := instruction(code)
		if from >= 0 {
			out = append(out, base[from:from+n]...)
		} else {
			out = append(out, code[1:1+n]...)
		}
		code = code[length:]
	}
	return out, nil
}

// instruction reads one: n bytes of the base from an offset, or, if from is -1, the n bytes that follow. length is
// what the instruction takes itself.
func instruction(code []byte) (from, n int64, length int, ok bool) {
	op := code[0]
	if op == 0 {
		return 0, 0, 0, false
	}
	if op&0x80 == 0 {
		return -1, int64(op), 1 + int(op), len(code) > int(op)
	}
	length = 1
	for i := range 7 {
		if op>>i&1 == 0 {
			continue
		}
		if length >= len(code) {
			return 0, 0, 0, false
		}
		b := int64(code[length])
		length++
		if i < 4 {
			from |= b << (8 * i)
		} else {
			n |= b << (8 * (i - 4))
		}
	}
	if n == 0 {
		n = 0x10000
	}
	return from, n, length, true
}
