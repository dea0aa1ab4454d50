package argv

import "mvdan.cc/sh/v3/syntax"

// compoundParts are the parts of a compound command that are judged one by one.
type compoundParts struct {
	name string
	// asks is set if the construct evaluates text in ways that no pattern sees.
	asks   string
	words  []syntax.Node // in the head: the words of a loop, the subject and patterns of a case
	bodies [][]*syntax.Stmt
}

// parts takes a compound command apart. A kind of command that is not listed asks.
func parts(cmd syntax.Command) compoundParts {
	switch c := cmd.(type) {
	case *syntax.Subshell:
		return compoundParts{name: "subshell", bodies: [][]*syntax.Stmt{c.Stmts}}
	case *syntax.Block:
		return compoundParts{name: "brace group", bodies: [][]*syntax.Stmt{c.Stmts}}
	case *syntax.IfClause:
		p := compoundParts{name: "if"}
		for ; c != nil; c = c.Else {
			p.bodies = append(p.bodies, c.Cond, c.Then)
		}
		return p
	case *syntax.WhileClause:
		name := "while"
		if c.Until {
			name = "until"
		}
		return compoundParts{name: name, bodies: [][]*syntax.Stmt{c.Cond, c.Do}}
	case *syntax.ForClause:
		return forParts(c)
	case *syntax.CaseClause:
		p := compoundParts{name: "case", words: []syntax.Node{c.Word}}
		for _, item := range c.Items {
			for _, w := range item.Patterns {
				p.words = append(p.words, w)
			}
			p.bodies = append(p.bodies, item.Stmts)
		}
		return p
	case *syntax.FuncDecl:
		return compoundParts{name: "function", bodies: [][]*syntax.Stmt{{c.Body}}}
	case *syntax.CoprocClause:
		p := compoundParts{name: "coproc", bodies: [][]*syntax.Stmt{{c.Stmt}}}
		if c.Name != nil {
			p.words = []syntax.Node{c.Name}
		}
		if c.Stmt == nil || !isCompound(c.Stmt.Cmd) {
			// The parser takes some words of a command for a name, an assignment or a descriptor.
			p.asks = "coproc"
		}
		return p
	case *syntax.TestClause:
		return compoundParts{name: "[[ ]]", asks: "[[ ]]"}
	case *syntax.ArithmCmd:
		return compoundParts{name: "(( ))", asks: "(( ))"}
	case *syntax.LetClause:
		return compoundParts{name: "let", asks: "let"}
	}
	return compoundParts{name: "unknown command", asks: "unknown command"}
}

func isCompound(cmd syntax.Command) bool {
	switch cmd.(type) {
	case *syntax.Subshell, *syntax.Block, *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause:
		return true
	}
	return false
}

func forParts(c *syntax.ForClause) compoundParts {
	p := compoundParts{name: "for", bodies: [][]*syntax.Stmt{c.Do}}
	if c.Select {
		p.name = "select"
	}
	switch loop := c.Loop.(type) {
	case *syntax.WordIter:
		if special(loop.Name.Value) {
			p.asks = specialVariable
		}
		for _, w := range loop.Items {
			p.words = append(p.words, w)
		}
	case *syntax.CStyleLoop:
		p.words = append(p.words, loop)
	}
	return p
}
