package argv

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxReparse bounds how often comments are blanked before the text is given up.
const maxReparse = 8

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
		if file == nil {
			return parsed{src: src, broken: err.Error()}
		}
		// The parser continues a comment over a backslash and newline and takes the next line for arguments; the
		// shells end the comment there and run the next line.
		if blanked, found := blankComments(src, file); found {
			src = blanked
			continue
		}
		p := parsed{src: src, stmts: file.Stmts}
		if err != nil {
			p.broken = "syntax error"
			p.stmts = finished(file.Stmts, err)
		}
		return p
	}
	return parsed{src: src, broken: "comments that end in a backslash"}
}

// parseOnce returns the tree of src, partial if there is an error. A panic of the parser is an error without
// a tree: a fault in it must ask, not end the process that judges.
func parseOnce(src string) (file *syntax.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, fmt.Errorf("parser failed: %v", r)
		}
	}()
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true))
	file, err = parser.Parse(strings.NewReader(src), "")
	if file == nil && err == nil {
		err = errors.New("parser failed")
	}
	return file, err
}

// blankComments replaces the closing backslash of each comment that the parser carried over a newline.
func blankComments(src string, file *syntax.File) (string, bool) {
	if !strings.Contains(src, "\\\n") || !strings.Contains(src, "#") {
		return src, false
	}
	var out []byte
	syntax.Walk(file, func(n syntax.Node) bool {
		c, ok := n.(*syntax.Comment)
		if !ok {
			return true
		}
		start := int(c.Hash.Offset())
		end := min(start+1+len(c.Text), len(src))
		for i := start; i+1 < end; i++ {
			if src[i] == '\\' && src[i+1] == '\n' {
				if out == nil {
					out = []byte(src)
				}
				out[i] = ' '
			}
		}
		return true
	})
	if out == nil {
		return src, false
	}
	return string(out), true
}

// finished returns the statements that end on a line before the error. A shell reads line by line, so these
// have run when it reports the error.
func finished(stmts []*syntax.Stmt, err error) []*syntax.Stmt {
	var line uint
	var parseErr syntax.ParseError
	var langErr syntax.LangError
	switch {
	case errors.As(err, &parseErr):
		line = parseErr.Pos.Line()
	case errors.As(err, &langErr):
		line = langErr.Pos.Line()
	}
	for i, s := range stmts {
		if s == nil || s.End().Line() >= line {
			return stmts[:i]
		}
	}
	return stmts
}
