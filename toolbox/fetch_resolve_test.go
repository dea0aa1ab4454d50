package toolbox

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// nameServer is a real DNS server on loopback; every name has the address 127.0.0.1, except those that begin with "no".
type nameServer struct {
	mu    sync.Mutex
	asked []string
}

func (n *nameServer) questions() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(n.asked)))
}

func (n *nameServer) serve(c net.PacketConn) {
	buffer := make([]byte, 4096)
	for {
		size, from, err := c.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buffer[:size]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		n.mu.Lock()
		n.asked = append(n.asked, q.Name.String())
		n.mu.Unlock()
		answer := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}, Questions: m.Questions}
		switch {
		case q.Name.String()[:2] == "no":
			answer.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeA:
			answer.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
		}
		if packed, err := answer.Pack(); err == nil {
			_, _ = c.WriteTo(packed, from)
		}
	}
}

// Names are asked for as they stand, whatever search domains the machine has; the hosts file is read too.
func TestNamesAreLookedUpInFull(t *testing.T) {
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	server := &nameServer{}
	go server.serve(c)
	before := resolver.Dial
	t.Cleanup(func() { resolver.Dial = before })
	resolver.Dial = func(ctx ctx, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp4", c.LocalAddr().String())
	}

	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	d := newFetch(t, FetchConfig{Allow: []string{"wiki", "a.b.test"}})
	fetched(t, d, nil, fields{"url": s.at("wiki", "/")})
	fetched(t, d, nil, fields{"url": s.at("A.b.test.", "/")})
	refused(t, call(t, d, nil, fields{"url": s.at("other.test", "/")}), "worker.fetch.allow", "other.test is 127.0.0.1, a loopback address")
	failed(t, call(t, d, nil, fields{"url": s.at("no.test", "/")}), false, `no such host "no.test"`)
	failed(t, call(t, d, nil, fields{"url": s.at("none", "/")}), false, `no such host "none"`)
	assert.Equal(t, []string{"a.b.test.", "no.test.", "none.", "other.test.", "wiki."}, server.questions())
	assert.Len(t, s.requests(), 2)

	got, err := lookupFull(t.Context(), "localhost")
	require.NoError(t, err)
	for _, addr := range got {
		assert.True(t, addr.Unmap().IsLoopback(), addr)
	}
	assert.NotContains(t, server.questions(), "localhost.", "it is in the hosts file")
}
