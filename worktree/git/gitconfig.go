package git

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/assent-dev/assent/worktree"
)

// setting is one line of a git configuration file. Key is `section.name` or `section.sub.name` with section and
// name in lower case, as git compares them. Implicit is true for a name without `=`, which git reads as true.
type setting struct {
	Key, Value string
	Implicit   bool
}

// configParser reads git's own grammar, and nothing more lenient: the file may have been written by an agent,
// and reading another thing than git reads would hide it.
type configParser struct {
	text    string
	pos     int
	line    int
	section string
}

// maxConfig is the size in bytes up to which a configuration is read: each setting takes many times what it has there.
const maxConfig = 4 << 20

// parseConfig returns the settings in file order.
func parseConfig(text string) ([]setting, error) {
	if len(text) > maxConfig {
		return nil, fmt.Errorf("it has more than %d bytes", maxConfig)
	}
	p := &configParser{text: strings.TrimPrefix(text, "\ufeff"), line: 1}
	var out []setting
	for {
		c, ok := p.next()
		switch {
		case !ok:
			return out, nil
		case c == '\n' || c == ' ' || c == '\t' || c == '\v' || c == '\f':
		case c == '#' || c == ';':
			p.skipLine()
		case c == '[':
			if err := p.header(); err != nil {
				return out, err
			}
		default:
			s, err := p.variable(c)
			if err != nil {
				return out, err
			}
			out = append(out, s)
		}
	}
}

func (p *configParser) fail() error { return fmt.Errorf("bad config line %d", p.line) }

// next returns the next byte, with CR LF read as LF.
func (p *configParser) next() (byte, bool) {
	if p.pos >= len(p.text) {
		return 0, false
	}
	c := p.text[p.pos]
	p.pos++
	if c == '\r' && p.pos < len(p.text) && p.text[p.pos] == '\n' {
		c = '\n'
		p.pos++
	}
	if c == '\n' {
		p.line++
	}
	return c, true
}

func (p *configParser) skipLine() {
	for c, ok := p.next(); ok && c != '\n'; c, ok = p.next() {
	}
}

// header reads `[name]`, `[name "sub"]` or the old `[name.sub]`, after the bracket.
func (p *configParser) header() error {
	var name strings.Builder
	for {
		c, ok := p.next()
		switch {
		case !ok || c == '\n':
			return p.fail()
		case c == ']':
			p.section = name.String()
			return nil
		case c == ' ' || c == '\t':
			return p.subsection(name.String())
		case !isAlnum(c) && c != '-' && c != '.':
			return p.fail()
		default:
			name.WriteByte(lower(c))
		}
	}
}

func (p *configParser) subsection(name string) error {
	c, ok := p.next()
	for ok && (c == ' ' || c == '\t') {
		c, ok = p.next()
	}
	if !ok || c != '"' {
		return p.fail()
	}
	var sub strings.Builder
	for {
		c, ok := p.next()
		if !ok || c == '\n' {
			return p.fail()
		}
		if c == '"' {
			break
		}
		if c == '\\' {
			if c, ok = p.next(); !ok || c == '\n' {
				return p.fail()
			}
		}
		sub.WriteByte(c)
	}
	if c, ok := p.next(); !ok || c != ']' {
		return p.fail()
	}
	p.section = name + "." + sub.String()
	return nil
}

// variable reads `name = value` whose first byte is c.
func (p *configParser) variable(c byte) (setting, error) {
	if !isAlpha(c) {
		return setting{}, p.fail()
	}
	name := []byte{lower(c)}
	c, ok := p.next()
	for ok && (isAlnum(c) || c == '-') {
		name = append(name, lower(c))
		c, ok = p.next()
	}
	for ok && (c == ' ' || c == '\t') {
		c, ok = p.next()
	}
	s := setting{Key: string(name)}
	if p.section != "" {
		s.Key = p.section + "." + s.Key
	}
	if !ok || c == '\n' {
		s.Implicit = true
		return s, nil
	}
	if c != '=' {
		return s, p.fail()
	}
	var err error
	s.Value, err = p.value()
	return s, err
}

// value reads up to the end of the line: quotes, escapes, comments and continued lines as git has them.
func (p *configParser) value() (string, error) {
	var b []byte
	quoted, comment := false, false
	trim := 0 // length up to which bytes belong for certain; spaces after it may be trailing
	for {
		c, ok := p.next()
		if !ok || c == '\n' {
			if quoted {
				return "", p.fail()
			}
			return string(b[:trim]), nil
		}
		if comment {
			continue
		}
		if !quoted && (c == ' ' || c == '\t' || c == '\v' || c == '\f') {
			if len(b) > 0 {
				b = append(b, c)
			}
			continue
		}
		switch {
		case !quoted && (c == ';' || c == '#'):
			comment = true
			continue
		case c == '"':
			quoted = !quoted
			continue
		case c == '\\':
			e, ok := p.next()
			if !ok || e == '\n' {
				continue
			}
			i := strings.IndexByte(`tbn\"`, e)
			if i < 0 {
				return "", p.fail()
			}
			c = "\t\b\n\\\""[i]
		}
		b = append(b, c)
		trim = len(b)
	}
}

func isAlpha(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isAlnum(c byte) bool { return isAlpha(c) || c >= '0' && c <= '9' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// gitConfig is a configuration in which the last of several equal keys counts.
type gitConfig map[string]setting

func newConfig(list []setting) gitConfig {
	c := make(gitConfig, len(list))
	for _, s := range list {
		c[s.Key] = s
	}
	return c
}

func (c gitConfig) text(key string) string { return c[key].Value }

// flag returns a boolean; a value that is none is refused, because git would refuse it too.
func (c gitConfig) flag(key string, unset bool) (bool, error) {
	s, ok := c[key]
	if !ok {
		return unset, nil
	}
	if s.Implicit {
		return true, nil
	}
	switch strings.ToLower(s.Value) {
	case "true", "yes", "on":
		return true, nil
	case "false", "no", "off", "":
		return false, nil
	}
	if n, err := strconv.Atoi(s.Value); err == nil {
		return n != 0, nil
	}
	return false, &worktree.NeedsGitError{Reason: fmt.Sprintf("config %s is %q", key, s.Value)}
}
