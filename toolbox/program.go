package toolbox

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxProgram bounds a command line, and maxNesting the brackets open at one place in it: the parser recurses, and
	// a Go stack that overflows takes the worker with it.
	maxProgram = 64 << 10
	maxNesting = 400
)

// shellProgram is a command line and, for the interpreter, what it parsed to.
type shellProgram struct {
	text string
	file *syntax.File
}

// unsupported lists the builtins that the interpreter knows by name only.
var unsupported = map[string]string{
	"bg": "job control", "fg": "job control", "jobs": "job control", "disown": "job control", "suspend": "job control",
	"ulimit": "changing the limits of the worker", "umask": "changing the file mode mask of the worker",
	"newgrp": "changing groups", "bind": "line editing", "fc": "history", "history": "history",
	"compgen": "completion", "complete": "completion", "compopt": "completion",
	"caller": "the call stack", "enable": "switching builtins", "logout": "a login shell",
	"alias": "aliases", "unalias": "aliases",
}

var errAliases = errors.New("this shell does not support aliases")

// maxReplacement bounds what ${x//y/z} may put in the place of every match: the result is as large as the product of
// both, and is built before anything looks at its size.
const maxReplacement = 64

// readProgram parses a command line and refuses, before anything has run, what the interpreter could not run.
func readProgram(text string) (*syntax.File, error) {
	if err := checkSize(text); err != nil {
		return nil, err
	}
	file, err := parseText(text)
	if err != nil {
		return nil, fmt.Errorf("the command does not parse: %w", err)
	}
	return file, checkFile(file)
}

// checkText is readProgram for text that a command runs in its turn. What does not parse is the interpreter's to report.
func checkText(text string) error {
	if err := checkSize(text); err != nil {
		return err
	}
	file, err := parseText(text)
	if err != nil {
		return nil
	}
	return checkFile(file)
}

func parseText(text string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
}

// checkFile returns the first thing that the interpreter could not run.
func checkFile(file *syntax.File) (first error) {
	syntax.Walk(file, func(n syntax.Node) bool {
		if first == nil && n != nil {
			first = checkNode(n)
		}
		return first == nil
	})
	return first
}

// checkSize refuses text that could not be parsed safely.
func checkSize(text string) error {
	if len(text) > maxProgram {
		return fmt.Errorf("the command has %d bytes; at most %d are read: put it into a script file and run that", len(text), maxProgram)
	}
	if strings.ContainsRune(text, 0) {
		return fmt.Errorf("the command holds a NUL character")
	}
	open := 0
	for _, c := range []byte(text) {
		switch c {
		case '(', '{', '[':
			if open++; open > maxNesting {
				return fmt.Errorf("the command has more than %d brackets open at once", maxNesting)
			}
		case ')', '}', ']':
			open = max(0, open-1)
		}
	}
	return nil
}

func checkNode(n syntax.Node) error {
	switch n := n.(type) {
	case *syntax.CoprocClause:
		return notSupported(n.Pos(), "coproc")
	case *syntax.Redirect:
		return checkRedirect(n)
	case *syntax.CallExpr:
		if len(n.Args) == 0 {
			return nil
		}
		if err := checkBuiltin(n.Args[0].Lit()); err != nil {
			return fmt.Errorf("%d:%d: %w", n.Pos().Line(), n.Pos().Col(), err)
		}
	case *syntax.ParamExp:
		if n.Repl != nil && n.Repl.All && !shortLiteral(n.Repl.With) {
			return notSupported(n.Pos(), fmt.Sprintf("${name//pattern/replacement} with a replacement that is no literal of at most %d bytes", maxReplacement))
		}
	}
	return nil
}

// checkBuiltin refuses a builtin that the interpreter knows by name only.
func checkBuiltin(name string) error {
	if why, found := unsupported[name]; found {
		return fmt.Errorf("this shell does not support %s (%s)", name, why)
	}
	return nil
}

// shortLiteral reports whether nothing has to be expanded to know that w is short.
func shortLiteral(w *syntax.Word) bool {
	if w == nil {
		return true
	}
	short := int(w.End().Offset()-w.Pos().Offset()) <= maxReplacement
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n.(type) {
		case nil, *syntax.Word, *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
		default:
			short = false
		}
		return short
	})
	return short
}

func checkRedirect(n *syntax.Redirect) error {
	if n.N != nil && n.N.Value != "0" && n.N.Value != "1" && n.N.Value != "2" {
		return notSupported(n.Pos(), fmt.Sprintf("a redirection of file descriptor %s", n.N.Value))
	}
	switch n.Op {
	case syntax.RdrIn, syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return nil
	case syntax.DplOut:
		if to := n.Word.Lit(); to == "" || to == "1" || to == "2" || to == "-" {
			return nil
		}
	case syntax.DplIn:
		if from := n.Word.Lit(); from == "" || from == "-" {
			return nil
		}
	}
	return notSupported(n.Pos(), "the redirection "+n.Op.String())
}

func notSupported(pos syntax.Pos, what string) error {
	return fmt.Errorf("%d:%d: this shell does not support %s", pos.Line(), pos.Col(), what)
}
