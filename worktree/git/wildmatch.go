package git

import "strings"

// The outcomes of a match. The two aborts say that no longer rest of the text can match either.
const (
	wildMatch = iota
	wildNone
	wildAbort
	wildAbortToStars
)

// wildmatch reports whether text matches a pattern of .gitignore or .gitattributes, by git's own algorithm.
// With paths, `*`, `?` and sets do not match a slash and `**` does.
func wildmatch(pattern, text string, paths bool) bool {
	w := &wild{pattern: pattern, text: text, paths: paths}
	return w.match(0, 0) == wildMatch
}

// wild is one match. What a rest of the pattern says about a rest of the text is remembered, because patterns
// with many stars would else take exponential time, and patterns come from whoever wrote the repository.
type wild struct {
	pattern, text string
	paths         bool
	known         map[[2]int]int
}

// at returns the byte at i, or zero at the end, as in the strings of C.
func at(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

func isGlobSpecial(c byte) bool { return c == '*' || c == '?' || c == '[' || c == '\\' || c == 0 }

// again is match from within a star.
func (w *wild) again(p, t int) int {
	key := [2]int{p, t}
	r, ok := w.known[key]
	if !ok {
		r = w.match(p, t)
		if w.known == nil {
			w.known = map[[2]int]int{}
		}
		w.known[key] = r
	}
	return r
}

// match matches the text from byte t on against the pattern from byte p on.
func (w *wild) match(p, t int) int {
	pattern, text := w.pattern, w.text
	for ; p < len(pattern); p, t = p+1, t+1 {
		c := pattern[p]
		if t >= len(text) && c != '*' {
			return wildAbort
		}
		switch c {
		case '*':
			nextP, nextT, result := w.star(p, t)
			if result >= 0 {
				return result
			}
			p, t = nextP, nextT
		case '?':
			if w.paths && text[t] == '/' {
				return wildNone
			}
		case '[':
			end, matched := wildSet(pattern, p+1, text[t])
			if end < 0 {
				return wildAbort
			}
			if !matched || w.paths && text[t] == '/' {
				return wildNone
			}
			p = end
		default:
			if c == '\\' {
				p++
				c = at(pattern, p)
			}
			if text[t] != c {
				return wildNone
			}
		}
	}
	if t < len(text) {
		return wildNone
	}
	return wildMatch
}

// star handles the star at p. A result below zero means: go on after the bytes at the returned places, which
// were matched.
func (w *wild) star(p, t int) (nextP, nextT, result int) {
	pattern, text := w.pattern, w.text
	start := p
	p++
	slashes := !w.paths
	if at(pattern, p) == '*' {
		for at(pattern, p) == '*' {
			p++
		}
		c := at(pattern, p)
		if w.paths && (start == 0 || pattern[start-1] == '/') && (c == 0 || c == '/' || c == '\\' && at(pattern, p+1) == '/') {
			// Another one says nothing more, and thousands of them would each be tried at every folder.
			for next := p + 1; c == '/' && strings.HasPrefix(pattern[next:], "**"); next = p + 1 {
				for at(pattern, next) == '*' {
					next++
				}
				if at(pattern, next) != '/' {
					break
				}
				p = next
			}
			if c == '/' && w.again(p+1, t) == wildMatch {
				return 0, 0, wildMatch
			}
			slashes = true
		}
	}
	if p >= len(pattern) {
		if !slashes && strings.Contains(text[t:], "/") {
			return 0, 0, wildNone
		}
		return 0, 0, wildMatch
	}
	if !slashes && pattern[p] == '/' {
		i := strings.IndexByte(text[t:], '/')
		if i < 0 {
			return 0, 0, wildNone
		}
		return p, t + i, -1
	}
	for ; t < len(text); t++ {
		if c := pattern[p]; !isGlobSpecial(c) {
			for t < len(text) && (slashes || text[t] != '/') && text[t] != c {
				t++
			}
			if at(text, t) != c {
				return 0, 0, wildNone
			}
		}
		if r := w.again(p, t); r != wildNone {
			if !slashes || r != wildAbortToStars {
				return 0, 0, r
			}
		} else if !slashes && text[t] == '/' {
			return 0, 0, wildAbortToStars
		}
	}
	return 0, 0, wildAbort
}

// wildSet matches c against the set that begins at p, after the bracket, and returns the index of its closing
// bracket, or -1 for a set that is not closed.
func wildSet(pattern string, p int, c byte) (end int, matched bool) {
	negated := at(pattern, p) == '!' || at(pattern, p) == '^'
	if negated {
		p++
	}
	var prev byte
	for first := true; first || at(pattern, p) != ']'; first = false {
		ch := at(pattern, p)
		if ch == 0 {
			return -1, false
		}
		switch {
		case ch == '\\':
			p++
			if ch = at(pattern, p); ch == 0 {
				return -1, false
			}
			matched = matched || c == ch
		case ch == '-' && prev != 0 && at(pattern, p+1) != 0 && at(pattern, p+1) != ']':
			p++
			if ch = pattern[p]; ch == '\\' {
				p++
				if ch = at(pattern, p); ch == 0 {
					return -1, false
				}
			}
			matched = matched || c <= ch && c >= prev
			ch = 0
		case ch == '[' && at(pattern, p+1) == ':':
			i := strings.IndexByte(pattern[p+2:], ']')
			if i < 0 {
				return -1, false
			}
			name, ok := strings.CutSuffix(pattern[p+2:p+2+i], ":")
			if !ok {
				matched = matched || c == '['
				break
			}
			in, known := inClass(name, c)
			if !known {
				return -1, false
			}
			matched = matched || in
			p += 2 + i
			ch = 0
		default:
			matched = matched || c == ch
		}
		prev = ch
		p++
	}
	return p, matched != negated
}

// inClass tells whether c is in a named class such as alpha.
func inClass(name string, c byte) (in, known bool) {
	isUpper, isLower := c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z'
	isDigit := c >= '0' && c <= '9'
	graph := c > ' ' && c < 0x7f
	switch name {
	case "alnum":
		return isUpper || isLower || isDigit, true
	case "alpha":
		return isUpper || isLower, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < ' ' || c == 0x7f, true
	case "digit":
		return isDigit, true
	case "graph":
		return graph, true
	case "lower":
		return isLower, true
	case "print":
		return graph || c == ' ', true
	case "punct":
		return graph && !isUpper && !isLower && !isDigit, true
	case "space":
		return c == ' ' || c >= '\t' && c <= '\r', true
	case "upper":
		return isUpper, true
	case "xdigit":
		return isDigit || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F', true
	}
	return false, false
}
