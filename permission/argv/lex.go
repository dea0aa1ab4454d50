package argv

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// lexer turns statements into segments. It knows every construct that may be allowed; one it does not know is
// judged like a compound command.
type lexer struct {
	src      string
	depth    int // of nested text
	segments []segment
	broken   string
	tooDeep  bool
}

// scope is what surrounds a statement.
type scope struct {
	prefix   []word // ! and time, in front of the first command of a pipeline
	start    int    // where the prefix stands, if there is one
	never    string // the compound command around it
	compound int    // how many there are
}

func (s scope) inside(construct string) scope {
	return scope{never: construct, compound: s.compound + 1}
}

func (l *lexer) stmts(list []*syntax.Stmt, in scope) {
	if in.compound > maxCompounds {
		l.tooDeep = true
	}
	for _, s := range list {
		if l.tooDeep {
			return
		}
		l.stmt(s, in)
	}
}

func (l *lexer) stmt(s *syntax.Stmt, in scope) {
	if s.Negated {
		in = l.prefixed(in, "!", s)
	}
	if s.Coprocess || s.Disown {
		in.never = "coprocess"
	}
	switch cmd := s.Cmd.(type) {
	case nil:
		l.simple(s, s.Position, nil, in)
	case *syntax.CallExpr:
		l.simple(s, cmd.End(), l.call(cmd), in)
	case *syntax.DeclClause:
		l.simple(s, cmd.End(), l.decl(cmd), in)
	case *syntax.TimeClause:
		in = l.prefixed(in, "time", s)
		if cmd.PosixFormat {
			in = l.prefixed(in, "-p", s)
		}
		if cmd.Stmt == nil {
			l.simple(s, cmd.End(), nil, in)
			return
		}
		if _, ok := cmd.Stmt.Cmd.(*syntax.CallExpr); !ok {
			// For dash it is a program with all these words as arguments, as far as the line goes.
			words := []word{literal("time")}
			l.add(segment{text: l.excerpt(s), words: words, views: []view{newView(words, true)}, never: "time"})
		}
		in.compound++ // time nests, and so it counts
		l.stmts([]*syntax.Stmt{cmd.Stmt}, in)
		l.extra(s, in)
	case *syntax.BinaryCmd:
		l.binary(s, cmd, in)
	default:
		l.compound(s, in)
	}
}

// prefixed adds a keyword that only an allow pattern which spells it covers.
func (l *lexer) prefixed(in scope, keyword string, s *syntax.Stmt) scope {
	if len(in.prefix) == 0 {
		in.start = int(s.Position.Offset())
	}
	in.prefix = append(slices.Clip(in.prefix), word{text: keyword, spelled: true})
	return in
}

// binary takes a pipeline or list apart. The tree leans to the left and may be as deep as the text is long.
func (l *lexer) binary(s *syntax.Stmt, cmd *syntax.BinaryCmd, in scope) {
	var right []*syntax.Stmt
	for {
		right = append(right, cmd.Y)
		l.extra(s, in)
		s = cmd.X
		next, ok := s.Cmd.(*syntax.BinaryCmd)
		if !ok {
			break
		}
		cmd = next
	}
	l.stmt(s, in)
	in.prefix = nil
	for _, s := range slices.Backward(right) {
		l.stmt(s, in)
	}
}

// extra judges redirections of a statement that is no simple command.
func (l *lexer) extra(s *syntax.Stmt, in scope) {
	if asks, never, _ := redirects(l.src, s.Redirs); asks != "" || never != "" {
		l.add(segment{text: l.excerpt(s), asks: asks, never: never})
	}
}

// simple adds the segment of a simple command whose own text ends at end.
func (l *lexer) simple(s *syntax.Stmt, end syntax.Pos, words []word, in scope) {
	asks, never, note := redirects(l.src, s.Redirs)
	seg := segment{asks: asks, never: in.never, note: note}
	start := int(s.Position.Offset())
	if s.Cmd != nil {
		start = min(start, int(s.Cmd.Pos().Offset()))
	}
	if len(in.prefix) > 0 {
		start = in.start
	}
	stop := int(end.Offset())
	for _, r := range s.Redirs {
		start = min(start, int(r.Pos().Offset()))
		if readApart(l.src, r, end) {
			seg.doubt("redirection that bash and dash read differently")
		}
		if r.Word != nil {
			stop = max(stop, int(r.Word.End().Offset()))
		}
	}
	seg.text = l.src[min(start, stop):min(stop, len(l.src))]
	seg.refuse(never)
	seg.words = words
	if len(in.prefix) > 0 {
		seg.words = slices.Concat(in.prefix, words)
	}
	seg.judgeWords(l.depth)
	l.add(seg)
}

func (s *segment) refuse(construct string) {
	if s.never == "" {
		s.never = construct
	}
}

func (l *lexer) add(s segment) { l.segments = append(l.segments, s) }

func (l *lexer) call(c *syntax.CallExpr) []word {
	words := make([]word, 0, len(c.Assigns)+len(c.Args))
	for _, a := range c.Assigns {
		w := l.assign(a)
		w.spelled = true
		words = append(words, w)
	}
	for _, a := range c.Args {
		words = append(words, evalWord(l.src, a))
	}
	return words
}

// decl returns the tokens of export, readonly, declare and their like.
func (l *lexer) decl(d *syntax.DeclClause) []word {
	words := make([]word, 0, 1+len(d.Args))
	words = append(words, literal(d.Variant.Value))
	for _, a := range d.Args {
		words = append(words, l.assign(a))
	}
	return words
}

// assign returns an assignment as one word.
func (l *lexer) assign(a *syntax.Assign) word {
	switch {
	case a.Name == nil && a.Value != nil:
		return evalWord(l.src, a.Value)
	case a.Index != nil, a.Array != nil, a.Append:
		return word{text: source(l.src, a), never: "array or += assignment", asks: substitution(a), dyn: true,
			shape: []piece{{exactly, a.Name.Value}, {kind: anyText}}}
	case a.Naked || a.Name == nil:
		return literal(source(l.src, a))
	}
	name := a.Name.Value + "="
	if a.Value == nil {
		return literal(name)
	}
	w := evalWord(l.src, a.Value)
	w.text = name + w.text
	if w.dyn {
		w.shape = slices.Insert(w.shape, 0, piece{exactly, name})
	}
	return w
}

// compound judges a compound command: nothing in it is allowed, deny and ask patterns look inside.
func (l *lexer) compound(s *syntax.Stmt, in scope) {
	c := parts(s.Cmd)
	before := len(l.segments)
	asks, _, _ := redirects(l.src, s.Redirs)
	if asks == "" {
		asks = c.asks
	}
	for _, w := range c.words {
		if asks == "" && w != nil {
			asks = substitution(w)
		}
	}
	if asks != "" {
		l.add(segment{text: l.excerpt(s), asks: asks, never: c.name})
	}
	for _, body := range c.bodies {
		l.stmts(body, in.inside(c.name))
	}
	if len(l.segments) == before && !l.tooDeep {
		l.add(segment{text: l.excerpt(s), never: c.name})
	}
}

// excerpt is the head of a statement: a nested command would otherwise be told once per level.
func (l *lexer) excerpt(s *syntax.Stmt) string {
	const most = 120
	start := min(int(s.Position.Offset()), len(l.src))
	end := min(int(s.End().Offset()), len(l.src))
	if end-start <= most {
		return l.src[start:max(start, end)]
	}
	cut := start + most
	for cut > start && l.src[cut]&0xc0 == 0x80 {
		cut--
	}
	return l.src[start:cut] + ellipsis
}
