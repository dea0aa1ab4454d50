package tool

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

var labelPattern = regexp.MustCompile(`\A[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\z`)

// maxHost is the longest name of a host in bytes.
const maxHost = 253

// checkHostname takes a name of RFC 1123, whose A-labels, xn--…, are names of RFC 5891.
func checkHostname(s string) error {
	if len(s) > maxHost {
		return fmt.Errorf("more than %d bytes", maxHost)
	}
	for label := range strings.SplitSeq(s, ".") {
		if !labelPattern.MatchString(label) {
			return errors.New("want labels of 1 to 63 letters, digits and inner hyphens")
		}
		if strings.EqualFold(label[:min(4, len(label))], "xn--") {
			if err := checkIDNHostname(label); err != nil {
				return err
			}
		}
	}
	return nil
}

// names checks host names as they are registered: nothing is mapped but the dots and capital letters of ASCII.
var names = idna.New(idna.ValidateForRegistration(), idna.VerifyDNSLength(true))

var otherDots = strings.NewReplacer("。", ".", "．", ".", "｡", ".")

// checkIDNHostname takes a name of RFC 5890 in either form.
func checkIDNHostname(s string) error {
	if len(s) > 4*maxHost {
		return fmt.Errorf("more than %d bytes", maxHost)
	}
	s = otherDots.Replace(s)
	lower := strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
	ascii, err := names.ToASCII(lower)
	if err != nil || strings.HasSuffix(s, ".") || len(ascii) > maxHost {
		return errors.New("not the name of a host")
	}
	unicodeForm, err := names.ToUnicode(ascii)
	if err != nil {
		return errors.New("not the name of a host")
	}
	for label := range strings.SplitSeq(unicodeForm, ".") {
		if !fitting([]rune(label)) {
			return errors.New("a character in the name of a host stands where it must not")
		}
	}
	return nil
}

// neverInLabels are the exceptions of RFC 5892, section 2.6, that are never allowed, though letters or marks.
const neverInLabels = "\u0640\u07fa\u302e\u302f\u3031\u3032\u3033\u3034\u3035\u303b"

// fitting applies the rules of RFC 5892, appendix A.3 to A.7, for characters that are allowed beside some others only.
// The rules before those are the package idna's.
func fitting(label []rune) bool {
	at := func(n int) rune {
		if n < 0 || n >= len(label) {
			return 0
		}
		return label[n]
	}
	cjk := slices.ContainsFunc(label, func(r rune) bool {
		return r != '\u30fb' && unicode.In(r, unicode.Hiragana, unicode.Katakana, unicode.Han)
	})
	for n, r := range label {
		ok := true
		switch r {
		case '\u00b7':
			ok = at(n-1) == 'l' && at(n+1) == 'l'
		case '\u0375':
			ok = unicode.Is(unicode.Greek, at(n+1))
		case '\u05f3', '\u05f4':
			ok = unicode.Is(unicode.Hebrew, at(n-1))
		case '\u30fb':
			ok = cjk
		default:
			ok = !strings.ContainsRune(neverInLabels, r)
		}
		if !ok {
			return false
		}
	}
	return true
}
