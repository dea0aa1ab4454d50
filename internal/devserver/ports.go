package devserver

import (
	"errors"
	"fmt"
	"net"
	"runtime"
)

// reservation holds listeners on the ports that a server is about to use.
type reservation struct {
	chosenPorts
	open []net.Listener
}

// reserve takes the ports that o names and free ones for the rest. All of them stay open until release is called,
// just before the server starts, so that no port is given out twice.
func reserve(o StartOptions) (*reservation, error) {
	r := &reservation{}
	var err error
	if r.grpc, err = r.listen(o.Port); err == nil {
		r.http, err = r.listen(0)
	}
	if err == nil && o.UI {
		r.ui, err = r.listen(o.UIPort)
	}
	if err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

func (r *reservation) listen(port int) (int, error) {
	l, err := net.Listen("tcp", hostPort(port))
	if err != nil {
		return 0, fmt.Errorf("reserve port %d: %w", port, err)
	}
	r.open = append(r.open, l)
	if port == 0 {
		if err := linger(l); err != nil {
			return 0, fmt.Errorf("reserve a free port: %w", err)
		}
	}
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (r *reservation) release() {
	for _, l := range r.open {
		_ = l.Close() // nothing to be done, and the server says if the port is not free
	}
	r.open = nil
}

// linger leaves a closed connection behind on the port of l. While that is in TIME_WAIT, for a minute, Linux gives
// the port to nobody who asks for a free one, but does give it to a server that asks for it by number. Without it,
// two test binaries that start servers at the same time meet now and then.
func linger(l net.Listener) error {
	if runtime.GOOS != "linux" {
		return nil // other systems go through all ports before they repeat one
	}
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	accepted, err := l.Accept()
	if err != nil {
		return errors.Join(err, client.Close())
	}
	// The side that closes first keeps the port.
	return errors.Join(accepted.Close(), client.Close())
}
