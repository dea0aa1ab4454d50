package canonjson

import (
	"bytes"
	"strconv"
)

// maxTrailingZeros is how many zeros a number that a float64 cannot hold may end in before it gets an exponent.
const maxTrailingZeros = 21

// number reads the literal at pos and appends its canonical text.
func (s *scanner) number() error {
	start := s.pos
	s.pos += s.count(s.pos, '-', '-', 1)
	switch {
	case s.count(s.pos, '0', '0', 1) == 1:
		s.pos++
	default:
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.count(s.pos, '.', '.', 1) == 1 {
		s.pos++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.pos < len(s.in) && s.in[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.in) && (s.in[s.pos] == '+' || s.in[s.pos] == '-') {
			s.pos++
		}
		if err := s.digits(); err != nil {
			return err
		}
	}
	if short(s.in[start:s.pos]) {
		s.out = append(s.out, s.in[start:s.pos]...)
		return nil
	}
	d, ok := parseDecimal(s.in[start:s.pos])
	if !ok {
		return s.fail(ErrNumberRange, start, "")
	}
	s.out = d.append(s.out, d.isShortest(s.in[start:s.pos]))
	return nil
}

// short reports whether a literal of valid syntax is an integer that is its own canonical text without more ado.
func short(literal []byte) bool {
	return len(literal) <= 15 && !bytes.ContainsAny(literal, ".eE") && string(literal) != "-0"
}

// count returns how many bytes from pos on lie between lo and hi, at most limit of them.
func (s *scanner) count(pos int, lo, hi byte, limit int) int {
	n := 0
	for n < limit && pos+n < len(s.in) && lo <= s.in[pos+n] && s.in[pos+n] <= hi {
		n++
	}
	return n
}

// digits skips one digit or more.
func (s *scanner) digits() error {
	n := s.count(s.pos, '0', '9', len(s.in))
	if s.pos += n; n == 0 {
		return s.unexpected("a digit")
	}
	return nil
}

// A decimal has the exact value 0.digits × 10^point. The digits neither start nor end with 0; zero has none.
type decimal struct {
	negative bool
	digits   []byte
	point    int
}

// parseDecimal reads a literal of valid syntax. It returns false if its value is beyond MaxExponent or MaxDigits.
func parseDecimal(literal []byte) (decimal, bool) {
	var d decimal
	literal, d.negative = bytes.CutPrefix(literal, []byte("-"))
	mantissa, exponent := literal, 0
	tooFar := false
	if e := bytes.IndexAny(literal, "eE"); e >= 0 {
		mantissa = literal[:e]
		var err error
		exponent, err = strconv.Atoi(string(literal[e+1:]))
		tooFar = err != nil
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	d.digits = append(append(d.digits, whole...), fraction...)
	significant := bytes.TrimLeft(d.digits, "0")
	point := len(whole) - (len(d.digits) - len(significant))
	d.digits = bytes.TrimRight(significant, "0")
	if len(d.digits) == 0 {
		return decimal{}, true
	}
	// Compared before they are added: the sum of an exponent near the limit of int and point may overflow.
	if tooFar || len(d.digits) > MaxDigits || exponent > MaxExponent-point || exponent < -MaxExponent-point {
		return d, false
	}
	d.point = point + exponent
	return d, true
}

// isShortest reports whether the ES6 text of the literal's float64 has exactly the value that was written.
func (d decimal) isShortest(literal []byte) bool {
	f, err := strconv.ParseFloat(string(literal), 64)
	if err != nil {
		return false
	}
	es6, _ := parseDecimal(strconv.AppendFloat(nil, f, 'e', -1, 64))
	return es6.point == d.point && bytes.Equal(es6.digits, d.digits)
}

// append writes the number as ES6 would. A number that is not the shortest text of any float64 has no ES6
// text; it is written in full unless that means more than maxTrailingZeros zeros, so that it reads as it was
// written in most cases and in every case depends on its value alone.
func (d decimal) append(out []byte, shortest bool) []byte {
	const es6Digits = 21
	k, n := len(d.digits), d.point
	if k == 0 {
		return append(out, '0')
	}
	if d.negative {
		out = append(out, '-')
	}
	full := n <= es6Digits || !shortest
	switch {
	case k <= n && full && n-k <= maxTrailingZeros:
		out = append(out, d.digits...)
		return append(out, bytes.Repeat([]byte("0"), n-k)...)
	case 0 < n && n < k && full:
		out = append(out, d.digits[:n]...)
		out = append(out, '.')
		return append(out, d.digits[n:]...)
	case -6 < n && n <= 0:
		out = append(out, '0', '.')
		out = append(out, bytes.Repeat([]byte("0"), -n)...)
		return append(out, d.digits...)
	}
	out = append(out, d.digits[0])
	if k > 1 {
		out = append(out, '.')
		out = append(out, d.digits[1:]...)
	}
	out = append(out, 'e')
	if n > 0 {
		out = append(out, '+')
	}
	return strconv.AppendInt(out, int64(n-1), 10)
}
