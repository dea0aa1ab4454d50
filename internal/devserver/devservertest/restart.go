package devservertest

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/assent-dev/assent/internal/devserver"
)

// Restartable starts a server that the test may kill and start again with the options returned, on the same port. That
// port lies below those that the system gives to clients: one of those may be taken while the server is away, even by a
// client that looks for it. The server ends with the test, those that are started later do not.
func Restartable(tb testing.TB, o devserver.StartOptions) (*devserver.Server, devserver.StartOptions) {
	tb.Helper()
	o.Binary = Binary(tb)
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		o.Port = 20000 + rand.IntN(10000)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port))); err != nil {
			continue
		}
		if err = l.Close(); err != nil {
			continue
		}
		var s *devserver.Server
		if s, err = devserver.Start(context.Background(), o); err == nil {
			tb.Cleanup(func() { _ = s.Stop(context.Background()) })
			return s, o
		}
	}
	tb.Fatal(err)
	return nil, o
}
