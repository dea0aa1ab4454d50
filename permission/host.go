package permission

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// domain is one entry of a domain rule: a host, or every host below one.
type domain struct {
	host string
	wild bool
}

// parseDomain accepts an exact host or *.host.
func parseDomain(text string) (domain, bool) {
	rest, wild := strings.CutPrefix(text, "*.")
	host, ok := NormalHost(rest)
	if _, err := netip.ParseAddr(host); err == nil && wild {
		return domain{}, false
	}
	return domain{host: host, wild: wild}, ok
}

// parseDomains parses domains that were checked.
func parseDomains(s Strings) []domain {
	out := make([]domain, len(s.Values))
	for i, text := range s.Values {
		out[i], _ = parseDomain(text)
	}
	return out
}

// domainRule is the place of a rule with domains.
type domainRule struct {
	table string
	index int
}

// domainIndex finds the rules that match a host without looking at the others.
type domainIndex struct {
	exact, below map[string][]domainRule
}

func (x *domainIndex) empty() bool { return len(x.exact)+len(x.below) == 0 }

func (x *domainIndex) add(table string, index int, domains []domain) {
	if x.exact == nil {
		x.exact, x.below = map[string][]domainRule{}, map[string][]domainRule{}
	}
	for _, d := range domains {
		in := x.exact
		if d.wild {
			in = x.below
		}
		in[d.host] = append(in[d.host], domainRule{table, index})
	}
}

// matching returns the rules that match a host in its normal form, each once: the deny table first, then in order.
func (x *domainIndex) matching(host string) []domainRule {
	found := slices.Clone(x.exact[host])
	for rest, more := host, true; more; {
		if _, rest, more = strings.Cut(rest, "."); more {
			found = append(found, x.below[rest]...)
		}
	}
	slices.SortFunc(found, func(a, b domainRule) int {
		if a.table != b.table {
			return strings.Compare(b.table, a.table)
		}
		return a.index - b.index
	})
	return slices.Compact(found)
}

// hostOf returns the normal form of the host of an absolute URL.
func hostOf(rawURL string) (string, bool) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme == "" {
		return "", false
	}
	return NormalHost(u.Hostname())
}

// A name has at most maxHost bytes of ASCII. Text that has more than four times as many stands for none, and IDNA would take
// time quadratic in its length to say so.
const (
	maxHost     = 253
	maxHostText = 4 * maxHost
)

// NormalHost brings two spellings of one host to one form: IDNA in ASCII, lower case, no final dot; an IP address in
// its shortest form, an IPv4 address in IPv6 clothes as IPv4. False means that the text is no host, or an address in a
// spelling that programs read differently.
func NormalHost(host string) (string, bool) {
	trimmed := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if addr, err := netip.ParseAddr(trimmed); err == nil {
		return addr.Unmap().WithZone("").String(), true
	}
	if len(host) > maxHostText {
		return "", false
	}
	ascii := host
	if !isASCII(host) { // as net/http does, so that names with an underscore pass
		var err error
		if ascii, err = idna.Lookup.ToASCII(host); err != nil {
			return "", false
		}
	}
	// IDNA maps the wide dots to plain ones, so only now is there one kind of final dot to take off.
	ascii = strings.TrimSuffix(strings.ToLower(ascii), ".")
	if ascii == "" || len(ascii) > maxHost {
		return "", false
	}
	for _, label := range strings.Split(ascii, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", false
		}
	}
	if addr, err := netip.ParseAddr(ascii); err == nil { // digits that IDNA made plain
		return addr.String(), true
	}
	if isNumber(ascii[strings.LastIndexByte(ascii, '.')+1:]) {
		return "", false
	}
	return ascii, true
}

// isNumber reports a last label that makes of a host an IPv4 address in disguise: to browsers and the C library 2130706433,
// 127.1 and 0x7f.1 are all 127.0.0.1.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
