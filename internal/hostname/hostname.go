package hostname

import (
	"errors"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

var (
	// ErrNone reports text that is no host.
	ErrNone = errors.New("no host name or address")
	// ErrDisguised reports what is an IPv4 address to browsers and to the C library, and a name to others: 2130706433,
	// 127.1, 0x7f.1.
	ErrDisguised = errors.New("an address in a spelling that programs read differently")
)

// A name has at most maxName bytes of ASCII. Text that has more than four times as many stands for none, and IDNA would take
// time quadratic in its length to say so.
const (
	maxName  = 253
	maxLabel = 63
	maxText  = 4 * maxName
)

// Host is a host in its one form.
type Host struct {
	// Name is a name, or an address without its zone.
	Name string
	// Addr is valid if the host is an address; it keeps the zone.
	Addr netip.Addr
}

// Parse reads a host, without a port and brackets. Its errors are ErrNone and ErrDisguised.
func Parse(text string) (Host, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return of(addr), nil
	}
	if len(text) > maxText || !utf8.ValidString(text) { // IDNA would make some name of it
		return Host{}, ErrNone
	}
	ascii := text
	if !isASCII(text) { // as net/http does, so that names with an underscore pass
		var err error
		if ascii, err = idna.Lookup.ToASCII(text); err != nil {
			return Host{}, ErrNone
		}
	}
	// IDNA maps the wide dots to plain ones, so only now is there one kind of final dot to take off.
	ascii = strings.TrimSuffix(strings.ToLower(ascii), ".")
	if addr, err := netip.ParseAddr(ascii); err == nil { // digits and dots that IDNA made plain, or a final dot
		return of(addr), nil
	}
	if len(ascii) > maxName {
		return Host{}, ErrNone
	}
	labels := strings.Split(ascii, ".")
	for _, label := range labels {
		if label == "" || len(label) > maxLabel || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return Host{}, ErrNone
		}
	}
	if isNumber(labels[len(labels)-1]) {
		return Host{}, ErrDisguised
	}
	return Host{Name: ascii}, nil
}

func of(addr netip.Addr) Host {
	addr = addr.Unmap()
	return Host{Name: addr.WithZone("").String(), Addr: addr}
}

// isNumber reports a last label that makes an IPv4 address of a host.
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
