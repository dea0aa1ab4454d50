package argv

import (
	"errors"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxReparse bounds how often comments are blanked before the text is given up. No text is known that needs more
// than two.
var maxReparse = 8

// parsed is shell text as a syntax tree.
type parsed struct {
	src   string // what the offsets of the tree refer to
	stmts []*syntax.Stmt
	// broken says why the text cannot be read to its end; stmts then holds the statements of the lines that the
	// shells run before they meet the error.
	broken string
}

// parse reads text that passed [refusal].
func parse(text string) parsed {
	src := text
	for range maxReparse {
		file, err := parseOnce(src)
		continued, misread := comments(src, file)
		// The parser continues a comment over a backslash and newline and takes the next line for arguments; the
		// shells end the comment there and run the next line.
		if len(continued) > 0 {
			src = blank(src, continued)
			continue
		}
		p := parsed{src: src, stmts: file.Stmts}
		switch {
		case misread != nil:
			p.broken = "number sign inside a word"
			p.stmts = finished(file.Stmts, misread.Pos().Line())
		case err != nil:
			p.broken = "syntax error"
			p.stmts = finished(file.Stmts, errorLine(err))
			p.reread(errorLine(err))
		}
		return p
	}
	return parsed{src: src, broken: "comments that end in a backslash"}
}

// reread reads the lines before the given one by themselves, if comments may hide commands in them: where the
// parser fails it drops the comments that it holds.
func (p *parsed) reread(line uint) {
	if !strings.Contains(p.src, "\\\n") || !strings.Contains(p.src, "#") {
		return
	}
	end := 0
	for ; line > 1; line-- {
		end += strings.IndexByte(p.src[end:], '\n') + 1
	}
	src := p.src[:end]
	for range maxReparse {
		file, err := parseOnce(src)
		continued, misread := comments(src, file)
		if err != nil || misread != nil {
			return
		}
		if len(continued) == 0 {
			p.stmts, p.src = file.Stmts, src+p.src[end:]
			return
		}
		src = blank(src, continued)
	}
}

// newParser is another one in the test of a parser that panics.
var newParser = syntax.NewParser

// parseOnce returns the tree of src, partial if there is an error.
func parseOnce(src string) (*syntax.File, error) {
	parser := newParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true))
	return parser.Parse(strings.NewReader(src), "")
}

// comments returns the offsets of the backslashes over which the parser continued a comment, and the first
// comment that is none: inside parentheses the parser takes the # of 'a'#b for one.
func comments(src string, file *syntax.File) (continued []int, misread *syntax.Comment) {
	if !strings.Contains(src, "#") {
		return nil, nil
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		c, ok := n.(*syntax.Comment)
		if !ok {
			return true
		}
		start := int(c.Hash.Offset())
		end := min(start+1+len(c.Text), len(src))
		for i := start; i+1 < end; i++ {
			if src[i] == '\\' && src[i+1] == '\n' {
				continued = append(continued, i)
			}
		}
		if misread == nil && !startsWord(src, start) {
			misread = c
		}
		return true
	})
	return continued, misread
}

// startsWord reports whether the byte at offset stands where a shell begins a word. After a closing parenthesis
// it may, but there it may also go on with the word of an extended glob.
func startsWord(src string, offset int) bool {
	for offset >= 2 && src[offset-1] == '\n' && backslashes(src[:offset-1])%2 == 1 {
		offset -= 2
	}
	return offset <= 0 || strings.IndexByte(" \t\n;&|(<>", src[offset-1]) >= 0
}

// backslashes counts the backslashes at the end of s.
func backslashes(s string) int { return len(s) - len(strings.TrimRight(s, `\`)) }

func blank(src string, offsets []int) string {
	out := []byte(src)
	for _, i := range offsets {
		out[i] = ' '
	}
	return string(out)
}

// finished returns the statements that end on a line before the given one, on which the text cannot be read. A
// shell reads line by line, so these have run when it reports the error.
func finished(stmts []*syntax.Stmt, line uint) []*syntax.Stmt {
	for i, s := range stmts {
		if s == nil || s.End().Line() >= line {
			return stmts[:i]
		}
	}
	return stmts
}

func errorLine(err error) uint {
	var parseErr syntax.ParseError
	if errors.As(err, &parseErr) {
		return parseErr.Pos.Line()
	}
	var langErr syntax.LangError
	errors.As(err, &langErr) // if it is neither, no line is finished
	return langErr.Pos.Line()
}
