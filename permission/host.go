package permission

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/assent-dev/assent/internal/hostname"
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

// NormalHost brings two spellings of one host to one form: IDNA in ASCII, lower case, no final dot; an IP address in
// its shortest form, without brackets and zone, an IPv4 address in IPv6 clothes as IPv4. False means that the text is no
// host, or an address in a spelling that programs read differently.
func NormalHost(host string) (string, bool) {
	inner, opened := strings.CutPrefix(host, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	h, err := hostname.Parse(inner)
	if err != nil || opened != closed || opened && !h.Addr.IsValid() {
		return "", false
	}
	return h.Name, true
}
