package argv

import (
	"strings"
	"unicode/utf8"
)

// piece is a part of what a word may become.
type piece struct {
	kind pieceKind
	text string
}

type pieceKind uint8

const (
	exactly pieceKind = iota // text
	oneRune                  // any one rune
	anyText                  // any text
	anyCut                   // any text, cut into words anywhere
	pickOf                   // some bytes of text, in order
)

// maxFit bounds the work of one fit; beyond it the word may be anything.
const maxFit = 1 << 20

// expand sets what the word may become, from its units.
func (w *word) expand(units []unit) {
	s := shaper{units: units}
	s.build()
	w.dyn = s.dyn
	if !s.dyn {
		return
	}
	w.shape, w.many, w.gap = s.pieces, s.many, s.gap
	w.tilde = s.tilde && !s.other
}

type shaper struct {
	units                        []unit
	pieces                       []piece
	text                         []byte // literal bytes not yet in pieces
	dyn, many, gap, tilde, other bool
}

func (s *shaper) build() {
	braceStart, braceEnd := s.braces()
	for i := 0; i < len(s.units); {
		switch {
		case i == braceStart:
			s.brace(i, braceEnd)
			i = braceEnd + 1
		case s.tildeAt(i):
			s.push(piece{kind: anyText})
			s.dyn, s.tilde = true, true
			i = s.tildeEnd(i)
		default:
			i = s.unit(i)
		}
	}
	s.flush()
}

func (s *shaper) unit(i int) int {
	u := s.units[i]
	switch {
	case u.kind == quoted:
		s.text = append(s.text, u.c)
	case u.kind == dollar:
		s.push(piece{kind: anyText})
	case u.kind == single:
		s.push(piece{kind: anyText})
		s.dyn, s.other = true, true
	case u.kind == cut:
		s.push(piece{kind: anyCut})
		s.dyn, s.other, s.gap = true, true, true
	case u.c == '*':
		s.push(piece{kind: anyText})
		s.glob()
	case u.c == '?':
		s.push(piece{kind: oneRune})
		s.glob()
	case u.c == '[':
		// Which bracket closes the set is a question shells answer differently; the last one bounds them all.
		if end := s.last(']'); end > i+1 {
			s.push(piece{kind: anyText})
			s.glob()
			for _, inner := range s.units[i : end+1] {
				s.gap = s.gap || inner.kind == cut
			}
			if s.gap {
				s.push(piece{kind: anyCut})
			}
			return end + 1
		}
		s.text = append(s.text, u.c)
	default:
		s.text = append(s.text, u.c)
	}
	return i + 1
}

func (s *shaper) glob() { s.dyn, s.many, s.other = true, true, true }

func (s *shaper) push(p piece) {
	s.flush()
	s.pieces = append(s.pieces, p)
}

func (s *shaper) flush() {
	if len(s.text) > 0 {
		s.pieces = append(s.pieces, piece{exactly, string(s.text)})
		s.text = s.text[:0]
	}
}

func (s *shaper) last(c byte) int {
	for i := len(s.units) - 1; i >= 0; i-- {
		if s.units[i].c == c && s.units[i].kind <= quoted {
			return i
		}
	}
	return -1
}

func (s *shaper) isBare(i int, c byte) bool {
	return i >= 0 && i < len(s.units) && s.units[i].kind == bare && s.units[i].c == c
}

// tildeAt reports whether a shell may expand a ~ here: at the start, and after = or : as in an assignment.
func (s *shaper) tildeAt(i int) bool {
	return s.isBare(i, '~') && (i == 0 || s.isBare(i-1, '=') || s.isBare(i-1, ':'))
}

func (s *shaper) tildeEnd(i int) int {
	for i++; i < len(s.units); i++ {
		if u := s.units[i]; u.kind != bare || u.c == '/' || u.c == ':' {
			break
		}
	}
	return i
}

// braces returns the bounds of the text that bash may expand as braces, or -1: from the first bare { to the
// last bare }, if there is a bare comma or .. between them.
func (s *shaper) braces() (start, end int) {
	start, end = -1, -1
	for i := range s.units {
		if start < 0 && s.isBare(i, '{') {
			start = i
		}
		if s.isBare(i, '}') {
			end = i
		}
	}
	if start < 0 || end < start {
		return -1, -1
	}
	for i := start + 1; i < end; i++ {
		if s.isBare(i, ',') || s.isBare(i, '.') && s.isBare(i+1, '.') {
			return start, end
		}
	}
	return -1, -1
}

func (s *shaper) brace(start, end int) {
	s.dyn, s.many, s.other = true, true, true
	kind := pickOf // dash leaves the braces alone, so they are part of what may be picked
	var body strings.Builder
	for i := start; i <= end; i++ {
		switch u := s.units[i]; {
		case u.kind == cut:
			s.gap = true
			kind = anyCut
		case u.kind == single, u.kind == dollar, s.isBare(i, '.') && s.isBare(i+1, '.'), s.isBare(i, '*'), s.isBare(i, '?'), s.isBare(i, '['),
			s.isBare(i, '~'):
			if kind == pickOf {
				kind = anyText
			}
		default:
			body.WriteByte(u.c)
		}
	}
	if kind != pickOf {
		body.Reset()
	}
	s.push(piece{kind, body.String()})
}

// mayBe reports whether w may become the one word text.
func (w *word) mayBe(text string) bool {
	if !w.dyn {
		return w.is(text)
	}
	return fits(w.shape, text)
}

// is reports whether w as it stands is text.
func (w *word) is(text string) bool { return w.text == text || w.alt == text && w.alt != "" }

// mayStart and mayEnd report whether w, cut into words, may begin or end with the word text.
func (w *word) mayStart(text string) bool {
	for i, p := range w.shape {
		if p.kind == anyCut {
			return fits(w.shape[:i+1], text)
		}
	}
	return fits(w.shape, text)
}

func (w *word) mayEnd(text string) bool {
	i := len(w.shape) - 1
	for i > 0 && w.shape[i].kind != anyCut {
		i--
	}
	return fits(w.shape[i:], text)
}

// mayVanish reports whether w, cut into words, may become no word at all.
func (w *word) mayVanish() bool {
	for _, p := range w.shape {
		if p.kind == exactly || p.kind == oneRune {
			return false
		}
	}
	return true
}

// fits reports whether pieces can produce text. It keeps the set of reachable positions instead of trying
// each choice in turn, so its work is the product of the two lengths.
func fits(pieces []piece, text string) bool {
	if len(pieces)*(len(text)+1) > maxFit {
		return true
	}
	var short [2][shortSet]bool
	reach, next := boolSet(short[0][:], len(text)+1), boolSet(short[1][:], len(text)+1)
	reach[0] = true
	for _, p := range pieces {
		clear(next)
		alive := false
		for i, ok := range reach {
			if !ok {
				continue
			}
			switch p.kind {
			case exactly:
				if strings.HasPrefix(text[i:], p.text) {
					next[i+len(p.text)], alive = true, true
				}
			case oneRune:
				if i < len(text) {
					_, size := utf8.DecodeRuneInString(text[i:])
					next[i+size], alive = true, true
				}
			case anyText, anyCut:
				for j := i; j <= len(text); j++ {
					next[j] = true
				}
				alive = true
			case pickOf:
				pick(p.text, text, i, next)
				alive = true
			}
			if p.kind >= anyText && p.kind != pickOf {
				break // later positions reach no more
			}
		}
		if !alive {
			return false
		}
		reach, next = next, reach
	}
	return reach[len(text)]
}

// shortSet is the size of a set that needs no allocation.
const shortSet = 32

func boolSet(short []bool, n int) []bool {
	if n <= len(short) {
		return short[:n]
	}
	return make([]bool, n)
}

// pick marks the ends of what picking bytes of body in order can produce at text[from:].
func pick(body, text string, from int, next []bool) {
	next[from] = true
	b := 0
	for j := from; j < len(text); j++ {
		at := strings.IndexByte(body[b:], text[j])
		if at < 0 {
			return
		}
		b += at + 1
		next[j+1] = true
	}
}
