package toolbox

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/assent-dev/assent/tool"
)

// Bounds of the phases of one connection, and on how many addresses of a host are tried.
const (
	lookupTime    = 10 * time.Second
	dialTime      = 5 * time.Second
	handshakeTime = 10 * time.Second
	mostDialled   = 8
)

// errFetchTime is the cause of a context whose call took too long.
var errFetchTime = errors.New("the call took too long")

// FetchDeniedError reports a connection that fetch refused to make. Its call is DENIED.
type FetchDeniedError struct {
	// By is the rule, or the setting, that refused.
	By string
	// Cause says why: a rule, or the kind of address.
	Cause error
}

func (e *FetchDeniedError) Error() string { return "denied: " + e.Cause.Error() }

// RefusedBy names the rule or the setting.
func (e *FetchDeniedError) RefusedBy() string { return e.By + ", at run time" }

// Unwrap returns the cause.
func (e *FetchDeniedError) Unwrap() error { return e.Cause }

// refuse is for what fetch refuses under any policy.
func refuse(format string, args ...any) error {
	return &FetchDeniedError{By: "fetch", Cause: fmt.Errorf(format, args...)}
}

// check judges a target as a whole, by name and by every address it has, and returns the addresses. asked says that it
// is the one that the chain has judged.
func (f *fetcher) check(ctx context.Context, rules tool.Rules, t target, asked bool) ([]netip.Addr, error) {
	if err := judge(rules, t.host, asked); err != nil {
		return nil, err
	}
	addrs := []netip.Addr{t.addr}
	if !t.addr.IsValid() {
		ctx, cancel := context.WithTimeout(ctx, lookupTime)
		defer cancel()
		var err error
		if addrs, err = f.lookup(ctx, t.host); err != nil {
			return nil, err
		}
		if len(addrs) == 0 {
			return nil, &net.DNSError{Err: "no address", Name: t.host, IsNotFound: true}
		}
	}
	checked := make([]netip.Addr, len(addrs))
	for i, addr := range addrs {
		checked[i] = addr.Unmap()
		if err := f.checkAddr(rules, t, checked[i]); err != nil {
			return nil, err
		}
	}
	return checked, nil
}

// checkAddr judges one address of a target. Nobody was asked about it, unless it is what the URL says.
func (f *fetcher) checkAddr(rules tool.Rules, t target, addr netip.Addr) error {
	plain := addr.WithZone("")
	if plain != t.addr {
		if err := judge(rules, plain.String(), false); err != nil {
			return fmt.Errorf("%s is %s: %w", t.host, addr, err)
		}
	}
	if inner, ok := translated(plain); ok {
		if err := judge(rules, inner.String(), false); err != nil {
			return fmt.Errorf("%s is %s: %w", addr, inner, err)
		}
	}
	kind := classify(addr)
	if kind == "" || f.allow.hosts[t.host] || f.allow.admits(addr) {
		return nil
	}
	what := addr.String()
	if what != t.host {
		what = t.host + " is " + what
	}
	return &FetchDeniedError{By: "worker.fetch.allow",
		Cause: fmt.Errorf("%s, %s; only an operator can admit it, with worker.fetch.allow", what, kind)}
}

// judge asks the rules of the call about a host name or an address.
func judge(rules tool.Rules, host string, asked bool) error {
	if rules == nil {
		return nil
	}
	err := rules.Host(host, asked)
	if err == nil {
		return nil
	}
	by := "deny-rule"
	if refused := (tool.Refused)(nil); errors.As(err, &refused) {
		by = refused.RefusedBy()
	}
	if strings.HasPrefix(by, "ask-rule") {
		err = fmt.Errorf("%w; nobody can be asked any more, fetch %s in a call of its own", err, host)
	}
	return &FetchDeniedError{By: by, Cause: err}
}

// The resolver of Go finds a full name, with its final dot, in the hosts file too; that of the C library does not. A name
// of one label it finds there only without the dot, so hostsFile asks nobody else.
var (
	resolver  = &net.Resolver{PreferGo: true}
	hostsFile = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no server is asked")
	}}
)

// lookupFull looks a name up as it stands. Search domains would turn it into another name, which nobody has judged.
func lookupFull(ctx context.Context, host string) ([]netip.Addr, error) {
	if !strings.Contains(host, ".") {
		if addrs, err := hostsFile.LookupNetIP(ctx, "ip", host); err == nil {
			return addrs, nil
		}
	}
	return resolver.LookupNetIP(ctx, "ip", host+".")
}

// transport serves one request. It connects to the addresses that were checked and to nothing else, whatever it tries
// again; it keeps no connection and knows no proxy.
func (f *fetcher) transport(addrs []netip.Addr, port string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx, addrs[:min(len(addrs), mostDialled)], port)
		},
		Proxy:                  nil, // behind a proxy nobody could say which address is reached
		TLSClientConfig:        &tls.Config{RootCAs: f.roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    handshakeTime,
		MaxResponseHeaderBytes: maxWireHeaders,
		DisableKeepAlives:      true,
		ForceAttemptHTTP2:      true,
	}
}

// dial connects to the first address that answers.
func dial(ctx context.Context, addrs []netip.Addr, port string) (net.Conn, error) {
	var first error
	for _, addr := range addrs {
		want := net.JoinHostPort(addr.String(), port)
		d := net.Dialer{Timeout: dialTime, Control: only(want)}
		conn, err := d.DialContext(ctx, "tcp", want)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// only refuses a socket that is about to connect anywhere else.
func only(want string) func(string, string, syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		got, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if checked, err := netip.ParseAddrPort(want); err != nil || got != checked {
			return fmt.Errorf("%s is not the address that was checked", address)
		}
		return nil
	}
}

// fetchProblem says in plain words why there is no response, for a model that may try something else.
func fetchProblem(ctx context.Context, err error) error {
	var (
		refused tool.Refused
		dns     *net.DNSError
		record  tls.RecordHeaderError
		cert    *tls.CertificateVerificationError
		network net.Error
	)
	switch {
	case errors.As(err, &refused):
		return err
	case errors.Is(context.Cause(ctx), errFetchTime):
		return errors.New("no whole answer in time; the server, or one it redirects to, is slow")
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("no such host %q; names are looked up in full, without search domains", strings.TrimSuffix(dns.Name, "."))
	case errors.As(err, &dns):
		return fmt.Errorf("the name %q cannot be resolved now: %s", dns.Name, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused: nothing listens at this host and port")
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return errors.New("the host cannot be reached from here")
	case errors.As(err, &record):
		return errors.New("TLS failed: the server does not speak it at this port")
	case errors.As(err, &cert):
		return fmt.Errorf("TLS failed: %w", cert.Err)
	case errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("the host does not answer: %w", err)
	}
	return err
}
