package tool

import (
	"errors"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The parts of RFC 3986, appendix B, and what may stand in them beside letters, digits and %XX.
var (
	uriPattern       = regexp.MustCompile(`\A(?:([a-zA-Z][a-zA-Z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?\z`)
	authorityPattern = regexp.MustCompile(`\A(?:([^@]*)@)?(\[[^\]]*\]|[^:\[\]@]*)(?::[0-9]*)?\z`)
	futurePattern    = regexp.MustCompile(`\A[vV][0-9a-fA-F]+\.[a-zA-Z0-9._~!$&'()*+,;=:-]+\z`)
	badPercent       = regexp.MustCompile(`%(?:[^0-9a-fA-F]|[0-9a-fA-F][^0-9a-fA-F]|.?\z)`)
)

const subDelims = "-._~%!$&'()*+,;="

// checkURI takes a URI or an IRI (RFC 3987), absolute or a reference.
func checkURI(s string, absolute, international bool) error {
	m := uriPattern.FindStringSubmatch(s)
	if m == nil || strings.ContainsAny(s, "\r\n") {
		return errors.New("not made of scheme, authority, path, query and fragment")
	}
	scheme, authority, path := m[1], m[2], m[3]
	first, _, _ := strings.Cut(path, "/")
	switch {
	case absolute && scheme == "":
		return errors.New("has no scheme")
	case scheme == "" && strings.Contains(first, ":"):
		return errors.New("the first part of a path without a scheme has a colon")
	case badPercent.MatchString(s):
		return errors.New("malformed percent sign")
	}
	if err := checkAuthority(authority, international); err != nil {
		return err
	}
	for _, part := range []struct{ text, others string }{
		{path, subDelims + ":@/"}, {strings.TrimPrefix(m[4], "?"), subDelims + ":@/?"}, {strings.TrimPrefix(m[5], "#"), subDelims + ":@/?"},
	} {
		if !madeOf(part.text, part.others, international) {
			return errors.New("a character has to be percent-encoded")
		}
	}
	return nil
}

func checkAuthority(authority string, international bool) error {
	m := authorityPattern.FindStringSubmatch(authority)
	if m == nil || !madeOf(m[1], subDelims+":", international) {
		return errors.New("malformed authority")
	}
	literal, ok := strings.CutPrefix(m[2], "[")
	if !ok {
		if !madeOf(m[2], subDelims, international) {
			return errors.New("malformed host")
		}
		return nil
	}
	literal = strings.TrimSuffix(literal, "]")
	if futurePattern.MatchString(literal) {
		return nil
	}
	return checkIPv6(literal)
}

// madeOf reports whether text has letters, digits and others only, where letters are those of ASCII or any.
func madeOf(text, others string, international bool) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		switch {
		case asciiLetterOrDigit(r) || r < utf8.RuneSelf && strings.ContainsRune(others, r):
			return false
		case !international || r < 0xA0:
			return true
		}
		return r == utf8.RuneError || unicode.Is(unicode.Noncharacter_Code_Point, r) || 0xFFF0 <= r && r <= 0xFFFF ||
			r == 0x200E || r == 0x200F || 0x202A <= r && r <= 0x202E
	})
}

// expressionPattern is an expression of RFC 6570, without its braces.
var expressionPattern = func() *regexp.Regexp {
	const char = `(?:[a-zA-Z0-9_]|%[0-9a-fA-F]{2})`
	const variable = char + `+(?:\.` + char + `+)*(?::[1-9][0-9]{0,3}|\*)?`
	return regexp.MustCompile(`\A[+#./;?&]?` + variable + `(?:,` + variable + `)*\z`)
}()

// checkURITemplate takes a template of RFC 6570.
func checkURITemplate(s string) error {
	for s != "" {
		literal, rest, open := strings.Cut(s, "{")
		if !madeOf(literal, "!#$&()*+,-./:;=?@[]_~%'", true) || badPercent.MatchString(literal) {
			return errors.New("a character has to be percent-encoded")
		}
		if !open {
			return nil
		}
		expression, after, closed := strings.Cut(rest, "}")
		if !closed || !expressionPattern.MatchString(expression) {
			return errors.New("malformed expression in braces")
		}
		s = after
	}
	return nil
}
