package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/assent-dev/assent/fault"
)

// MaxSize is the largest configuration file in bytes.
const MaxSize = 1 << 20

// Bounds that no honest file comes near; the parser's time grows with the square of what they bound.
const (
	maxFlowDepth = 32
	maxDashes    = 8   // entries of lists that begin on one line
	maxIndent    = 256 // columns
)

// Load reads a file. Errors are *fault.ConfigError.
func Load(path string) (*File, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// read returns the content of a file, or a little more than may be read.
func read(path string) ([]byte, error) {
	unreadable := func(err error) error {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err // the message has the path already
		}
		return &fault.ConfigError{File: path, Msg: "cannot be read", Cause: err}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, unreadable(err)
	}
	return data, nil
}

// Parse reads the content of a file. The name stands in errors, and relative paths are resolved against its folder.
// Errors are *fault.ConfigError.
func Parse(name string, data []byte) (*File, error) {
	r := newReader(name)
	f := r.document(data)
	if r.err != nil {
		return nil, r.err
	}
	return f, nil
}

func newReader(name string) *reader {
	r := &reader{name: name, dir: filepath.Dir(name), nodes: map[string]place{}, keys: map[*fault.ConfigError]string{}}
	if abs, err := filepath.Abs(r.dir); err == nil {
		r.dir = abs
	}
	return r
}

// document reads the content of a file. What it returns is good for nothing if there was an error.
func (r *reader) document(data []byte) *File {
	f := &File{Path: r.name, source: r}
	if len(data) > MaxSize {
		r.fail(r.errorAt(place{}, "", "is larger than 1 MiB"))
		return f
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	r.lines = strings.Split(text, "\n")
	if e := r.checkText(); e != nil {
		r.fail(e)
		return f
	}
	root, e := r.parse(text)
	if e != nil {
		r.fail(e)
		return f
	}
	r.file(f, value{r: r, node: root})
	return f
}

// checkText refuses bytes that no editor shows.
func (r *reader) checkText() *fault.ConfigError {
	for i, line := range r.lines {
		col := 0
		for offset, c := range strings.TrimSuffix(line, "\r") {
			col++
			switch {
			case c == utf8.RuneError && !strings.HasPrefix(line[offset:], string(utf8.RuneError)):
				return r.errorAt(place{i + 1, col}, "", "is not UTF-8")
			case c < ' ' && c != '\t', c >= 0x7f && c < 0xa0, c == '\u2028', c == '\u2029':
				return r.errorAt(place{i + 1, col}, "", fmt.Sprintf("control character %U", c))
			}
		}
	}
	return nil
}

func (r *reader) parse(text string) (root ast.Node, bad *fault.ConfigError) {
	defer func() {
		if p := recover(); p != nil { // a fault of the parser must not end the program
			root, bad = nil, r.errorAt(place{}, "", fmt.Sprintf("cannot be parsed: %v", p))
		}
	}()
	tokens := lexer.Tokenize(text)
	if e := r.checkTokens(tokens); e != nil {
		return nil, e
	}
	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		at, msg := place{}, ""
		var known yaml.Error
		if errors.As(err, &known) && known.GetToken() != nil {
			at, msg = placeOf(known.GetToken()), known.GetMessage()
		} else {
			msg = err.Error() // not of the others, whose time grows with the square of a line's words
		}
		if at.line > 0 && at.line <= len(r.lines) && strings.Contains(r.lines[at.line-1], "\t") {
			msg += "; the line holds a tab"
		}
		return nil, r.errorAt(at, "", msg)
	}
	for _, doc := range parsed.Docs {
		switch {
		case doc.Body == nil:
		case root != nil:
			return nil, r.errorAt(placeOfNode(doc.Body), "", "a second document; one file holds one")
		default:
			root = doc.Body
		}
	}
	if root == nil {
		return nil, r.errorAt(place{}, "", "is empty")
	}
	return root, nil
}

// refused are the parts of YAML that make a file say more than a reader sees.
var refused = map[token.Type]string{
	token.AnchorType:     "an anchor; write the value out",
	token.AliasType:      "an alias; write the value out, or quote a string that begins with *",
	token.MergeKeyType:   "a merge key; write the values out",
	token.TagType:        "a tag; write a plain value, or quote a string that begins with !",
	token.DirectiveType:  "a directive",
	token.MappingKeyType: "a complex key; write `key: value`",
}

// checkTokens refuses what a configuration must not use, before the parser spends time on it.
func (r *reader) checkTokens(tokens token.Tokens) *fault.ConfigError {
	depth, line, dashes, block := 0, 0, 0, false
	for i, t := range tokens {
		if msg, ok := refused[t.Type]; ok {
			return r.errorAt(placeOf(t), "", msg)
		}
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		if !block && hasTab(t) {
			return r.errorAt(placeOf(t), "", "a tab; indent and separate with spaces")
		}
		if t.Type != token.CommentType {
			block = t.Type == token.LiteralType || t.Type == token.FoldedType
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			dashes++
		}
		deepKey := t.Type == token.MappingValueType && depth == 0 && i > 0 && tokens[i-1].Position.Column > maxIndent
		if depth > maxFlowDepth || dashes > maxDashes || deepKey {
			return r.errorAt(placeOf(t), "", "nested too deep")
		}
	}
	return nil
}

// hasTab reports a tab that is part of the layout rather than of a text.
func hasTab(t *token.Token) bool {
	switch t.Type {
	case token.CommentType:
		return false
	case token.SingleQuoteType, token.DoubleQuoteType:
		layout, _, _ := strings.Cut(t.Origin, string(t.Origin[strings.IndexAny(t.Origin, `'"`)]))
		return strings.Contains(layout, "\t")
	}
	return strings.Contains(strings.TrimRight(t.Origin, "\r\n\t "), "\t") || strings.Contains(t.Value, "\t")
}
