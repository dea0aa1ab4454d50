package git

import "strings"

// The outcomes of wild. The two aborts say that no longer rest of the text can match either, which keeps
// patterns with many stars from taking exponential time.
const (
	wildMatch = iota
	wildNone
	wildAbort
	wildAbortToStars
)

// wildmatch reports whether text matches a pattern of .gitignore or .gitattributes, by git's own algorithm.
// With paths, `*`, `?` and sets do not match a slash and `**` does.
func wildmatch(pattern, text string, paths bool) bool {
	return wild(pattern, 0, text, paths) == wildMatch
}

// at returns the byte at i, or zero at the end, as in the strings of C.
func at(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

func isGlobSpecial(c byte) bool { return c == '*' || c == '?' || c == '[' || c == '\\' || c == 0 }

// wild matches text against pattern from its byte p on.
func wild(pattern string, p int, text string, paths bool) int {
	t := 0
	for ; p < len(pattern); p, t = p+1, t+1 {
		c := pattern[p]
		if t >= len(text) && c != '*' {
			return wildAbort
		}
		switch c {
		case '*':
			next, skip, result := wildStar(pattern, p, text[t:], paths)
			if result >= 0 {
				return result
			}
			p, t = next, t+skip
		case '?':
			if paths && text[t] == '/' {
				return wildNone
			}
		case '[':
			end, matched := wildSet(pattern, p+1, text[t])
			if end < 0 {
				return wildAbort
			}
			if !matched || paths && text[t] == '/' {
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

// wildStar handles the star at p. A result below zero means: go on after byte next of the pattern and byte
// skip of the text, which were matched.
func wildStar(pattern string, p int, text string, paths bool) (next, skip, result int) {
	start := p
	p++
	slashes := !paths
	if at(pattern, p) == '*' {
		for at(pattern, p) == '*' {
			p++
		}
		c := at(pattern, p)
		if paths && (start == 0 || pattern[start-1] == '/') && (c == 0 || c == '/' || c == '\\' && at(pattern, p+1) == '/') {
			if c == '/' && wild(pattern, p+1, text, paths) == wildMatch {
				return 0, 0, wildMatch
			}
			slashes = true
		}
	}
	if p >= len(pattern) {
		if !slashes && strings.Contains(text, "/") {
			return 0, 0, wildNone
		}
		return 0, 0, wildMatch
	}
	if !slashes && pattern[p] == '/' {
		i := strings.IndexByte(text, '/')
		if i < 0 {
			return 0, 0, wildNone
		}
		return p, i, -1
	}
	for i := 0; i < len(text); i++ {
		if c := pattern[p]; !isGlobSpecial(c) {
			for i < len(text) && (slashes || text[i] != '/') && text[i] != c {
				i++
			}
			if at(text, i) != c {
				return 0, 0, wildNone
			}
		}
		if r := wild(pattern, p, text[i:], paths); r != wildNone {
			if !slashes || r != wildAbortToStars {
				return 0, 0, r
			}
		} else if !slashes && text[i] == '/' {
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
