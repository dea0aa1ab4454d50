package tool

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/unicode/norm"
)

// formats replace the library's where it takes what the RFCs refuse or the other way round. As every format they only
// look at text.
var formats = []*jsonschema.Format{
	textFormat("time", checkTime),
	textFormat("date-time", checkDateTime),
	textFormat("duration", matching3339),
	textFormat("email", func(s string) error { return checkEmail(s, checkHostname, isASCII) }),
	textFormat("idn-email", func(s string) error {
		return checkEmail(s, func(host string) error { return checkIDNHostname(norm.NFC.String(host)) }, utf8.ValidString)
	}),
	textFormat("hostname", checkHostname),
	textFormat("idn-hostname", checkIDNHostname),
	textFormat("ipv4", checkIPv4),
	textFormat("uri", func(s string) error { return checkURI(s, true, false) }),
	textFormat("uri-reference", func(s string) error { return checkURI(s, false, false) }),
	textFormat("iri", func(s string) error { return checkURI(s, true, true) }),
	textFormat("iri-reference", func(s string) error { return checkURI(s, false, true) }),
	textFormat("uri-template", checkURITemplate),
}

func textFormat(name string, check func(string) error) *jsonschema.Format {
	return &jsonschema.Format{Name: name, Validate: func(v any) error {
		if s, ok := v.(string); ok {
			return check(s)
		}
		return nil
	}}
}

var timePattern = regexp.MustCompile(`\A([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?([zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])\z`)

// checkTime takes a full-time of RFC 3339, with leap seconds where they can be: at 23:59:60 UTC.
func checkTime(s string) error {
	m := timePattern.FindStringSubmatch(s)
	if m == nil {
		return errors.New("want hh:mm:ss and Z or an offset")
	}
	leap := m[3] == "60"
	if leap {
		m[3] = "59"
	}
	// Go knows no time without a day.
	zone := strings.ToUpper(m[5])
	t, err := time.Parse(time.RFC3339, "2000-06-15T"+m[1]+":"+m[2]+":"+m[3]+zone)
	if err != nil {
		return errors.New("there is no such time")
	}
	if u := t.UTC(); leap && (u.Hour() != 23 || u.Minute() != 59) {
		return errors.New("there is no such leap second")
	}
	return nil
}

func checkDateTime(s string) error {
	at := strings.IndexAny(s, "tT")
	if at < 0 {
		return errors.New("want a date, T and a time")
	}
	if _, err := time.Parse(time.DateOnly, s[:at]); err != nil {
		return errors.New("there is no such date")
	}
	return checkTime(s[at+1:])
}

// durationPattern is the grammar of RFC 3339, appendix A: units in order, none left out between two.
var durationPattern = regexp.MustCompile(`\AP(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)?` +
	`(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?)\z`)

func matching3339(s string) error {
	if s == "P" || !durationPattern.MatchString(s) {
		return errors.New("want P, then years, months, days, or weeks, then T with hours, minutes, seconds")
	}
	return nil
}

// checkEmail takes a Mailbox of RFC 5321, or of RFC 6531 where text may be any Unicode.
func checkEmail(s string, host func(string) error, letters func(string) bool) error {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return errors.New("missing @")
	}
	local, domain := s[:at], s[at+1:]
	switch {
	case len(s) > 254:
		return errors.New("more than 254 bytes")
	case local == "" || len(local) > 64:
		return errors.New("want 1 to 64 bytes before the @")
	case !letters(local):
		return errors.New("want ASCII before the @")
	}
	if quoted, ok := strings.CutPrefix(local, `"`); ok {
		if quoted, ok = strings.CutSuffix(quoted, `"`); !ok || !quotedPattern.MatchString(quoted) {
			return errors.New("the text in quotes before the @ is malformed")
		}
	} else if strings.ContainsFunc(local, notInAtom) || strings.Contains("."+local+".", "..") {
		return errors.New("a character or dot before the @ is not allowed")
	}
	literal, ok := strings.CutPrefix(domain, "[")
	if !ok {
		return host(domain)
	}
	if literal, ok = strings.CutSuffix(literal, "]"); !ok {
		return errors.New("missing ]")
	}
	if six, ok := strings.CutPrefix(literal, "IPv6:"); ok {
		return checkIPv6(six)
	}
	return checkIPv4(literal)
}

var quotedPattern = regexp.MustCompile(`\A(?:[^"\\\x00-\x1f\x7f]|\\[\x20-\x7e])*\z`)

func notInAtom(r rune) bool {
	return r < utf8.RuneSelf && !strings.ContainsRune("!#$%&'*+-/=?^_`{|}~.", r) && !asciiLetterOrDigit(r)
}

func asciiLetterOrDigit(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

func checkIPv4(s string) error {
	if addr, err := netip.ParseAddr(s); err != nil || !addr.Is4() {
		return errors.New("want four numbers from 0 to 255 with dots between them")
	}
	return nil
}

func checkIPv6(s string) error {
	if addr, err := netip.ParseAddr(s); err != nil || !addr.Is6() || addr.Zone() != "" {
		return errors.New("want an IPv6 address without a zone")
	}
	return nil
}
