package main

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"syscall"

	"go.temporal.io/server/common/config"
)

// ports holds listeners open, so that no port is chosen twice and a busy one is found before anything has started.
type ports struct{ open []net.Listener }

// take listens on ip and port, a free one if port is 0, and returns the port.
func (h *ports) take(ip string, port int, flag string) (int, error) {
	address := net.JoinHostPort(ip, strconv.Itoa(port))
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return 0, &failure{
			msg:  fmt.Sprintf("port %d on %s is in use", port, ip),
			hint: fmt.Sprintf("end the program that has it (perhaps another devserver), or choose another one with --%s", flag),
		}
	}
	if err != nil {
		return 0, &failure{msg: "listen on " + address, cause: err, hint: fmt.Sprintf("choose another one with --%s or --ip", flag)}
	}
	h.open = append(h.open, l)
	if port == 0 {
		if err := linger(l); err != nil {
			return 0, fmt.Errorf("reserve a free port: %w", err)
		}
	}
	return l.Addr().(*net.TCPAddr).Port, nil
}

// linger leaves a closed connection behind on the port of l. While that is in TIME_WAIT, for a minute, Linux gives the
// port to nobody who asks for a free one, but does give it to the server, which asks for it by number. Without it, two
// servers that start at the same moment meet now and then.
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

// release closes all of them. The server listens for itself a moment later.
func (h *ports) release() {
	for _, l := range h.open {
		_ = l.Close() // nothing was accepted and nothing can be done
	}
	h.open = nil
}

// takePorts takes every port of the plan, chooses the ones that are free to choose, and writes them into the
// configuration. The caller releases them just before the server starts.
func (p *plan) takePorts() (*ports, error) {
	h := &ports{}
	if err := p.fillPorts(h); err != nil {
		h.release()
		return nil, err
	}
	return h, nil
}

func (p *plan) fillPorts(h *ports) error {
	var err error
	if p.port, err = h.take(p.ip, p.port, "port"); err != nil {
		return err
	}
	if p.httpPort, err = h.take(p.ip, p.httpPort, "http-port"); err != nil {
		return err
	}
	if !p.headless {
		if p.uiPort, err = h.take(p.uiIP, p.uiPort, "ui-port"); err != nil {
			return err
		}
	}
	if p.metricsPort != 0 {
		if _, err = h.take(p.ip, p.metricsPort, "metrics-port"); err != nil {
			return err
		}
	}
	p.frontend = net.JoinHostPort(reachable(p.ip), strconv.Itoa(p.port))
	httpAddress := net.JoinHostPort(reachable(p.ip), strconv.Itoa(p.httpPort))

	for name, service := range p.cfg.Services {
		// Only the frontend is for others; the rest talk among themselves, always on this machine.
		rpc := config.RPC{BindOnIP: "127.0.0.1", KeepAliveServerConfig: service.RPC.KeepAliveServerConfig}
		if name == "frontend" {
			rpc.BindOnIP, rpc.GRPCPort, rpc.HTTPPort = p.ip, p.port, p.httpPort
		} else if rpc.GRPCPort, err = h.take("127.0.0.1", 0, "port"); err != nil {
			return err
		}
		service.RPC = rpc
		p.cfg.Services[name] = service
	}
	p.cfg.PublicClient.HostPort, p.cfg.PublicClient.HTTPHostPort = p.frontend, httpAddress
	if c := p.cfg.ClusterMetadata; c != nil {
		for name, info := range c.ClusterInformation {
			info.RPCAddress, info.HTTPAddress = p.frontend, httpAddress
			c.ClusterInformation[name] = info
		}
	}
	return nil
}
