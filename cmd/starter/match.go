package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/permission/argv"
)

func (a *app) matchCommand() *cobra.Command {
	var tables permission.Tables
	var file string
	cmd := &cobra.Command{
		Use:   "match [--allow P]… [--ask P]… [--deny P]… -- COMMAND | --file FILE",
		Short: "Say what patterns make of a shell command, without running it",
		Long: `Say what patterns make of a shell command, without running it and without a policy file.

The strictest verdict over the parts of the command decides: deny over ask over allow; a part that no pattern matches asks.
A pattern is a list of shell words: * is any one word, ** at the end any number of them. COMMAND is one argument, to the
byte; --file takes it from a file, or with - from standard input, with every byte of it. The exit code is 0 whatever the
verdict.`,
		Example: `  starter match --allow 'npm test' --deny 'rm **' -o json -- 'npm test; rm -rf /'
  git diff --name-only | starter match --allow 'go vet **' --file -`,
		GroupID: groupPolicy,
		RunE: func(cmd *cobra.Command, args []string) error {
			command, err := a.commandArg(cmd, file, args)
			if err != nil {
				return err
			}
			return a.match(command, tables)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&tables.Allow, "allow", nil, "pattern of commands that may run (repeatable)")
	flags.StringArrayVar(&tables.Ask, "ask", nil, "pattern of commands to ask about (repeatable)")
	flags.StringArrayVar(&tables.Deny, "deny", nil, "pattern of commands that must not run (repeatable)")
	flags.StringVar(&file, "file", "", "file that holds the command; - is standard input")
	a.outputFlag(cmd)
	return cmd
}

// commandArg returns the command of the one argument or of the file.
func (a *app) commandArg(cmd *cobra.Command, file string, args []string) (string, error) {
	const hint = "see: starter match --help"
	fromFile := cmd.Flags().Changed("file")
	switch {
	case fromFile && len(args) > 0:
		return "", exit.Usagef(hint, "--file and COMMAND exclude each other")
	case fromFile:
		text, err := a.readAll(file, "--file")
		return string(text), err
	case len(args) == 0:
		return "", exit.Usagef(hint, "the COMMAND is missing")
	case len(args) > 1:
		return "", exit.Usagef("quote the whole command: starter match -- 'npm test; ls'", "unexpected argument %q", args[1])
	}
	return args[0], nil
}

// mostRead bounds what is read of a file or a pipe, in bytes.
const mostRead = 16 << 20

// readAll returns the bytes of a file, or of standard input for -.
func (a *app) readAll(path, flag string) ([]byte, error) {
	from := a.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, exit.Usagef("", "%s: %w", flag, err)
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, mostRead+1))
	switch {
	case err != nil:
		return nil, exit.Usagef("", "%s: %w", flag, err)
	case len(text) > mostRead:
		return nil, exit.Usagef("", "%s: %q is larger than 16 MiB", flag, path)
	}
	return text, nil
}

func (a *app) match(command string, tables permission.Tables) error {
	d, err := permission.MatchShellCommand(command, tables)
	if err != nil {
		return badPattern(err)
	}
	if a.json() {
		return a.printJSON(d)
	}
	a.printf("%s   %s\n", a.verdict(d.Verdict), oneLine(command, mostLine))
	a.parts(d.Segments)
	for _, hint := range tooShort(d.Segments, tables) {
		a.printf("  hint    %s\n", hint)
	}
	for _, p := range suggestions(d.Segments) {
		if allowedBy(command, tables, p) {
			a.printf("  hint    --allow %s would allow this part\n", shellQuote(p))
		}
	}
	return nil
}

// badPattern names the flag of a pattern that cannot be compiled.
func badPattern(err error) error {
	var c *fault.ConfigError
	var p *argv.PatternError
	if errors.As(err, &c) && errors.As(err, &p) {
		flag, _, _ := bytes.Cut([]byte(c.Key), []byte("["))
		return exit.Usagef("see: starter match --help", "--%s: %w", flag, p)
	}
	return err
}

// suggestions returns the exact pattern of each segment that asks for nothing but want of one.
func suggestions(segments []argv.Segment) []string {
	var out []string
	for _, s := range segments {
		if s.Verdict != argv.TableAsk || s.Table != "" || s.Construct != "" {
			continue
		}
		if p, ok := argv.Suggest(s.Segment); ok {
			out = append(out, p)
		}
	}
	return out
}

// tooShort names the deny and ask patterns that would have met a part, had they not been for the bare command alone.
func tooShort(segments []argv.Segment, t permission.Tables) []string {
	var out []string
	for _, table := range []struct {
		name     string
		patterns []string
		wide     func(string) permission.Tables
	}{
		{argv.TableDeny, t.Deny, func(p string) permission.Tables { return permission.Tables{Deny: []string{p}} }},
		{argv.TableAsk, t.Ask, func(p string) permission.Tables { return permission.Tables{Ask: []string{p}} }},
	} {
		for _, p := range table.patterns {
			wide := p + " **"
			met := func(s argv.Segment) bool {
				if s.Table == argv.TableDeny || s.Table == argv.TableAsk || s.Construct != "" {
					return false
				}
				d, err := permission.MatchShellCommand(s.Segment, table.wide(wide))
				return err == nil && d.Segments[0].Pattern == wide
			}
			if slices.ContainsFunc(segments, met) {
				out = append(out, fmt.Sprintf("--%s %s is for these words alone; %s is for any words behind them",
					table.name, shellQuote(p), shellQuote(wide)))
			}
		}
	}
	return out
}

// allowedBy reports whether one more pattern allows a part of the command that asked.
func allowedBy(command string, t permission.Tables, pattern string) bool {
	t.Allow = append(t.Allow[:len(t.Allow):len(t.Allow)], pattern)
	d, err := permission.MatchShellCommand(command, t)
	if err != nil {
		return false
	}
	for _, s := range d.Segments {
		if s.Table == argv.TableAllow && s.Pattern == pattern {
			return true
		}
	}
	return false
}

// parts shows each segment with what decided it.
func (a *app) parts(segments []argv.Segment) {
	for _, s := range segments {
		a.printf("  part    %s\n", partText(s))
	}
}

// partText is a segment with what decided it, on one line.
func partText(s argv.Segment) string {
	text := fmt.Sprintf("%-5s  %s", s.Verdict, oneLine(s.Segment, mostLine))
	if s.Pattern != "" {
		text += fmt.Sprintf("   %s: %s", s.Table, s.Pattern)
	}
	switch {
	case s.Construct != "":
		text += "   (" + s.Construct + ")"
	case s.Pattern == "" && s.Verdict == argv.TableAsk:
		text += "   (no pattern matches)"
	}
	return text
}

// printJSON writes one value on one line. Strangers wrote much of it, so what could move the cursor or hide is written as
// an escape, which is the same JSON; what a shell line may hold is not.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(a.out, plainJSON(b.Bytes()))
	return err
}

// plainJSON escapes what is not visible; in JSON on one line such runes stand in strings only.
func plainJSON(text []byte) string {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == '\n' || approval.Visible(r) && (r != utf8.RuneError || size > 1):
			out = append(out, text[i:i+size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += size
	}
	return string(out)
}
