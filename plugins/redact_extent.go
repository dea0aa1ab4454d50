package plugins

import (
	"regexp"
	"strings"
)

// extent is value for the value at from of the name text[first:last].
func extent(text string, first, last, from int, line bool) (int, int) {
	if line := strings.LastIndexByte(text[last:from], '\n'); line >= 0 && strings.Trim(text[last+line+1:from], " \t") == "" {
		if to := blockEnd(text, from); to > from {
			return from, to
		}
	}
	// In quotes of its own a header ends at the next one.
	return value(text, from, line, first == 0 || strings.IndexByte("\"'`", text[first-1]) < 0)
}

// afterOperator returns where the value begins of which at is behind its operator: there, behind the stars of
// Markdown, on the next line after a backslash or if it is a block of YAML.
func afterOperator(text string, at int) int {
	if strings.HasPrefix(text[at:], "** ") {
		at = skipBlank(text, at+2) // **Password:** x
	}
	for strings.HasPrefix(text[at:], "\\\n") || strings.HasPrefix(text[at:], "\\\r\n") {
		at = skipBlank(text, at+strings.IndexByte(text[at:], '\n')+1)
	}
	scalar := at < len(text) && (text[at] == '|' || text[at] == '>') && strings.HasPrefix(strings.TrimLeft(text[at+1:min(at+3, len(text))], "+-"), "\n")
	if scalar {
		for at++; at < len(text) && strings.IndexByte("+- \t\r\n", text[at]) >= 0; {
			at++
		}
		return at
	}
	if at < len(text) && (text[at] == '\n' || text[at] == '\r') {
		if next := block(text, at); next > 0 {
			return next
		}
	}
	return at
}

// mapping matches the first line of a block that holds names of its own.
var mapping = regexp.MustCompile(`\A["']?[A-Za-z_][A-Za-z0-9_.-]{0,63}["']?:(?:[ \t\r\n]|\z)`)

// block returns where a block of YAML begins that is the value of the line that ends at at: text that is indented deeper than the line,
// or a list. It is 0 if there is none.
func block(text string, at int) int {
	own := indent(text[strings.LastIndexByte(text[:at], '\n')+1 : at])
	from := len(text) - len(strings.TrimLeft(text[at:], " \t\r\n"))
	if from == len(text) {
		return 0
	}
	depth := from - 1 - strings.LastIndexByte(text[:from], '\n')
	if rest := text[from:min(from+2*mostName, len(text))]; mapping.MatchString(rest) || depth <= own && !(depth == own && strings.HasPrefix(rest, "- ")) {
		return 0
	}
	return from
}

// pairedValue returns where the value begins in the line below that at ends, as in the lines `name: DB_PASSWORD` and `value: x`, or 0.
func pairedValue(text string, at int) int {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(text[at:], "\r"), "\n")
	if !ok {
		return 0
	}
	rest, ok = strings.CutPrefix(strings.TrimLeft(rest, " \t"), "value:")
	if !ok || rest == "" || rest[0] != ' ' && rest[0] != '\t' {
		return 0
	}
	return afterOperator(text, skipBlank(text, len(text)-len(rest)))
}

// mostQuoted bounds how far a quoted text or a list is read beyond the line in which it begins.
const mostQuoted = 1 << 10

// closing returns where the text in quotes ends: at a quote that is escaped no more than the opening one and not doubled. Beyond the
// line in which it begins it is one that nothing can follow; without any, the text ends with that line.
func closing(text string, from int, quote byte, escapes int) int {
	run, line := 0, -1
	for at := from; at < len(text); at++ {
		switch c := text[at]; {
		case c == '\\':
			run++
			continue
		case line >= 0 && at-line > mostQuoted:
			return line
		case c == '\n' && line < 0:
			line = at
		case c == quote && run <= escapes && run == 0 && at > from && at+1 < len(text) && text[at+1] == quote:
			at++ // as YAML and SQL write one
		case c == quote && run <= escapes && (line < 0 || ends(text, at+1)):
			return at - run
		}
		run = 0
	}
	if line >= 0 {
		return line
	}
	return len(text)
}

// isMark reports whether a text begins with what a redaction left.
func isMark(text string) bool {
	n := strings.IndexByte(text, ']')
	return n > 0 && marked.MatchString(text[:n+1])
}

// listEnd returns where the list that begins at from ends, before its bracket, or 0 if there is none on its own.
func listEnd(text string, from int) int {
	if from >= len(text) {
		return 0
	}
	opener, closer := text[from], byte(']')
	switch next := strings.TrimLeft(text[from+1:min(from+1+mostName, len(text))], " \t\r\n"); {
	case opener == '(' && next != "" && (strings.IndexByte("\"'`)", next[0]) >= 0 || isMark(next)):
		closer = ')'
	case opener != '[' || next == "" || isMark(text[from:min(from+mostName, len(text))]):
		return 0
	}
	depth := 0
	var quote byte
	for at := from + 1; at < len(text) && at-from < mostQuoted; at++ {
		switch c := text[at]; {
		case c == '\\':
			at++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '`' || c == '\'':
			quote = c
		case c == opener:
			depth++
		case c == closer && depth > 0:
			depth--
		case c == closer && ends(text, at+1):
			return at
		case c == closer:
			return 0 // code such as []byte("x")
		}
	}
	return 0
}

// blockEnd returns the end of a block of YAML whose text begins at from, or 0 if that is neither indented nor a list.
func blockEnd(text string, from int) int {
	depth := indent(text[strings.LastIndexByte(text[:from], '\n')+1 : from])
	list := strings.HasPrefix(text[from:], "- ")
	if depth == 0 && !list {
		return 0
	}
	to, last := from, from
	for line := range strings.Lines(text[from:]) {
		blank := strings.TrimSpace(line) == ""
		if to > from && !blank && (indent(line) < depth || list && indent(line) == depth && !strings.HasPrefix(line[depth:], "-")) {
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
