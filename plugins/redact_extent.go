package plugins

import "strings"

// extent is value for the value at from of the name text[first:last].
func extent(text string, first, last, from int, line bool) (int, int) {
	if strings.Contains(text[last:from], "\n") {
		if to := blockEnd(text, from); to > from {
			return from, to
		}
	}
	// In quotes of its own a header ends at the next one.
	return value(text, from, line, first == 0 || strings.IndexByte("\"'`", text[first-1]) < 0)
}

// blockEnd returns the end of a block of YAML whose text begins at from, or 0 if that is not indented.
func blockEnd(text string, from int) int {
	depth := indent(text[strings.LastIndexByte(text[:from], '\n')+1 : from])
	if depth == 0 {
		return 0
	}
	to, last := from, from
	for line := range strings.Lines(text[from:]) {
		blank := strings.TrimSpace(line) == ""
		if to > from && !blank && indent(line) < depth {
			break
		}
		to += len(line)
		if !blank {
			last = to
		}
	}
	return from + len(strings.TrimRight(text[from:last], " \t\r\n"))
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// lineEnd returns the end of a line, or of the quoted text in which it stands. With params quoted values of parameters, as in
// `Digest username="bob", response="x"`, are parts of it.
func lineEnd(text string, from int, params bool) int {
	for at := from; at < len(text); at++ {
		switch c := text[at]; {
		case c == '\n' || c == '\r':
			return at
		case c == '"' || c == '`' || c == '\'' && (ends(text, at+1) || params && at > from && text[at-1] == '='):
			end := at
			if params && at > from && text[at-1] == '=' {
				end = paramEnd(text, at)
			}
			if end == at {
				return at
			}
			at = end
		case c == '\\' && at+1 < len(text) && strings.IndexByte("nr\"'\\", text[at+1]) >= 0:
			return at
		}
	}
	return len(text)
}

// paramEnd returns the closing quote of the parameter whose value's opening one is at at, or at.
func paramEnd(text string, at int) int {
	n := strings.IndexAny(text[at+1:], text[at:at+1]+"\r\n\\")
	if n < 0 || text[at+1+n] != text[at] || !ends(text, at+n+2) {
		return at
	}
	return at + 1 + n
}
