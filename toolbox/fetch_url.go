package toolbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/assent-dev/assent/internal/hostname"
)

// target is where a request goes.
type target struct {
	// url has the host in its normal form, no credentials and no fragment.
	url *url.URL
	// host is a name in ASCII and lower case without a final dot, or an address in its shortest form.
	host, port string
	// addr is valid if host is an address.
	addr netip.Addr
}

func (t target) String() string { return t.url.String() }

// origin is what credentials belong to.
func (t target) origin() string { return t.url.Scheme + "://" + net.JoinHostPort(t.host, t.port) }

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// newTarget checks the form of a URL. It accepts no host that two readers could take for two different ones.
func newTarget(u *url.URL) (target, error) {
	standard, ok := defaultPorts[u.Scheme]
	switch {
	case u.Scheme == "":
		return target{}, errors.New("want an absolute URL that begins with http:// or https://")
	case !ok:
		return target{}, refuse("only http and https are fetched, not %s", clip(u.Scheme))
	case u.User != nil:
		return target{}, refuse("the URL has a user name or password; send an Authorization header")
	case u.Opaque != "" || u.Host == "":
		return target{}, errors.New("the URL has no host; want http:// or https:// and a host")
	}
	host, addr, err := parseHost(u.Hostname())
	if err != nil {
		return target{}, err
	}
	port := standard
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return target{}, fmt.Errorf("port %q is none of 1 to 65535", text)
		}
		port = strconv.FormatUint(n, 10)
	}
	clean := &url.URL{Scheme: u.Scheme, Path: u.Path, RawPath: u.RawPath, RawQuery: escapeQuery(u.RawQuery), ForceQuery: u.ForceQuery, Host: host}
	if addr.Is6() {
		clean.Host = "[" + host + "]"
	}
	if port != standard {
		clean.Host = net.JoinHostPort(host, port)
	}
	if clean.Path == "" {
		clean.Path = "/"
	}
	return target{url: clean, host: host, port: port, addr: addr}, nil
}

// escapeQuery escapes what must not stand in the first line of a request.
func escapeQuery(query string) string {
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// parseHost brings a host to the one form in which it is judged, resolved and sent: the form in which rules name it.
// Spellings of addresses that only some programs read as such are refused, and so are zones.
func parseHost(text string) (string, netip.Addr, error) {
	host, err := hostname.Parse(text)
	switch {
	case errors.Is(err, hostname.ErrDisguised):
		return "", netip.Addr{}, refuse("%q is no host name; an IPv4 address is four decimal numbers such as 192.0.2.1", clip(text))
	case err != nil:
		return "", netip.Addr{}, fmt.Errorf("%q is no host name", clip(text))
	case host.Addr.Zone() != "":
		return "", netip.Addr{}, refuse("the address %q has a zone", clip(text))
	}
	return host.Name, host.Addr, nil
}

// badURL is the error of url.Parse without the URL, which the caller says.
func badURL(err error) error {
	if inner := (*url.Error)(nil); errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("bad URL: %w", err)
}

// clip shortens what somebody else wrote.
func clip(text string) string {
	const most = 300
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func quoteURL(text string) string { return strconv.Quote(clip(text)) }
