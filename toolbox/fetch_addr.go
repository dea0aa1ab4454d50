package toolbox

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/assent-dev/assent/fault"
)

// A kind of address that is not public, and so is reached only if an operator admits it.
type addrKind struct {
	name     string
	prefixes []netip.Prefix
}

func kind(name string, prefixes ...string) addrKind {
	k := addrKind{name: name}
	for _, p := range prefixes {
		k.prefixes = append(k.prefixes, netip.MustParsePrefix(p))
	}
	return k
}

// notPublic holds the special-purpose registries of IANA, stricter where an address of a kind could lead to one of
// another. The first kind that fits names an address.
var notPublic = []addrKind{
	kind("an unspecified address", "0.0.0.0/8", "::/128"),
	kind("a loopback address", "127.0.0.0/8", "::1/128"),
	kind("a cloud's metadata address", "169.254.169.254/32", "169.254.170.0/24", "100.100.100.200/32", "168.63.129.16/32",
		"192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::254/128"),
	kind("a link-local address", "169.254.0.0/16", "fe80::/10"),
	kind("a private address", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
	kind("a shared address of a carrier (CGNAT)", "100.64.0.0/10"),
	kind("a multicast address", "224.0.0.0/4", "ff00::/8"),
	kind("an address for documentation", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
	kind("an address for benchmarking", "198.18.0.0/15", "2001:2::/48"),
	kind("an IPv4 address in other clothes", "::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "2001::/32", "2002::/16"),
	kind("a reserved address", "192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4", "2001::/23"),
}

var (
	// Only this part of IPv6 is handed out; all else is reserved.
	globalIPv6 = netip.MustParsePrefix("2000::/3")
	// nat64 is how a network without IPv4 reaches it: the address is in the last 32 bits.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// classify says what kind of address this is if it is not public, and nothing if it is.
func classify(addr netip.Addr) string {
	addr = addr.Unmap()
	if addr.Zone() != "" {
		return "an address with a zone"
	}
	if inner, ok := translated(addr); ok {
		return classify(inner)
	}
	for _, k := range notPublic {
		if slices.ContainsFunc(k.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			return k.name
		}
	}
	if !addr.Is4() && !globalIPv6.Contains(addr) { // the zero Addr too
		return "a reserved address"
	}
	return ""
}

// translated returns the IPv4 address that a NAT64 gateway makes of an address.
func translated(addr netip.Addr) (netip.Addr, bool) {
	if !nat64.Contains(addr) {
		return netip.Addr{}, false
	}
	b := addr.As16()
	return netip.AddrFrom4([4]byte(b[12:])), true
}

// allowList is what an operator admits although it is not public.
type allowList struct {
	hosts    map[string]bool
	prefixes []netip.Prefix
}

func (l allowList) admits(addr netip.Addr) bool {
	return slices.ContainsFunc(l.prefixes, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
}

func (l *allowList) add(entry string) error {
	if strings.Contains(entry, "/") {
		p, err := parsePrefix(entry)
		if err == nil {
			l.prefixes = append(l.prefixes, p)
		}
		return err
	}
	bare := entry
	if strings.HasPrefix(entry, "[") && strings.HasSuffix(entry, "]") {
		bare = entry[1 : len(entry)-1]
	}
	host, addr, err := parseHost(bare)
	switch {
	case err != nil:
		return errAllow(entry)
	case addr.IsValid():
		l.prefixes = append(l.prefixes, netip.PrefixFrom(addr, addr.BitLen()))
	default:
		l.hosts[host] = true
	}
	return nil
}

func parsePrefix(entry string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(entry)
	if err != nil {
		return p, errAllow(entry)
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return p, errAllow(entry)
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p != p.Masked() { // perhaps another length was meant
		return p, fmt.Errorf("bad prefix %q, want %s", entry, p.Masked())
	}
	return p, nil
}

func errAllow(entry string) error {
	return fmt.Errorf("bad host %q, want a host name, an IP address or a CIDR prefix", entry)
}

// CheckAllow returns an error if an entry of FetchConfig.Allow is no host name, IP address or CIDR prefix. There are no
// wildcards, ports and zones; an IPv4 address is four decimal numbers, and a prefix has no bits behind its length.
func CheckAllow(entry string) error { return (&allowList{hosts: map[string]bool{}}).add(entry) }

func newFetcher(cfg FetchConfig) (*fetcher, error) {
	f := &fetcher{FetchConfig: cfg, allow: allowList{hosts: map[string]bool{}}}
	for i, entry := range cfg.Allow {
		if err := f.allow.add(entry); err != nil {
			return nil, fault.Configf(fmt.Sprintf("fetch.allow[%d]", i), "%v", err)
		}
	}
	if f.lookup == nil {
		f.lookup = lookupFull
	}
	if f.limit == 0 {
		f.limit = maxFetch
	}
	return f, nil
}
