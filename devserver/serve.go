package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

const (
	// readyWithin is more than a loaded machine ever needed; the usual time is half a second.
	readyWithin = time.Minute
	// stopWithin bounds an orderly end. Nothing is lost by a disorderly one: the database is made for it.
	stopWithin = 10 * time.Second
)

// serve runs the server and the UI until ctx ends, which is a success, or until one of them fails.
func serve(ctx context.Context, p *plan, held *ports, stdout, stderr io.Writer) error {
	var level slog.LevelVar
	level.Set(p.logLevel)
	fatal := make(chan string, 1)
	logs := newLogger(stderr, p.logFormat, &level, fatal)
	if p.logConfig {
		fmt.Fprint(stderr, p.cfg.String())
	}

	held.release()
	type result struct {
		server temporal.Server
		err    error
	}
	started := make(chan result, 1)
	go func() { // of its own, because a fatal log line ends the goroutine that wrote it
		server, err := newServer(p, logs)
		if err == nil {
			err = server.Start()
		}
		started <- result{server, err}
	}()
	var server temporal.Server
	select {
	case r := <-started:
		if r.err != nil {
			return fmt.Errorf("start the server: %w", r.err)
		}
		server = r.server
	case msg := <-fatal:
		return fmt.Errorf("start the server: %s", msg)
	case <-ctx.Done():
		return nil // the process ends, and with it what has started so far
	}
	ui := startUI(p)
	err := serveUntil(ctx, p, fatal, stdout)
	if !p.logLevelSet {
		level.Set(levelNever) // a stopping server warns of everything that is going away
	}
	stop(server, ui)
	return err
}

// serveUntil waits for readiness, says so, and returns when ctx has ended or the server has failed.
func serveUntil(ctx context.Context, p *plan, fatal <-chan string, stdout io.Writer) error {
	ready := make(chan error, 1)
	go func() {
		waiting, cancel := context.WithTimeout(ctx, readyWithin)
		defer cancel()
		ready <- waitReady(waiting, p)
	}()
	for {
		select {
		case err := <-ready:
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return fmt.Errorf("wait for the server: %w", err)
			}
			fmt.Fprintln(stdout, p.readyLine())
		case msg := <-fatal:
			return fmt.Errorf("run the server: %s", msg)
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *plan) readyLine() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Temporal is ready at %s", p.frontend)
	if !p.headless {
		fmt.Fprintf(&b, ", UI http://%s%s", p.uiAddress(), p.uiPublicPath)
	}
	fmt.Fprintf(&b, ", HTTP API on port %d, namespace %s", p.httpPort, strings.Join(p.namespaces, ", "))
	if p.dbFile == "" {
		b.WriteString(", in memory")
	} else {
		fmt.Fprintf(&b, ", in %s", p.dbFile)
	}
	b.WriteString(" (Ctrl-C ends it)")
	return b.String()
}

func (p *plan) uiAddress() string { return net.JoinHostPort(reachable(p.uiIP), strconv.Itoa(p.uiPort)) }

func newServer(p *plan, logs logger) (temporal.Server, error) {
	authorizer, err := authorization.GetAuthorizerFromConfig(&p.cfg.Global.Authorization)
	if err != nil {
		return nil, err
	}
	mapper, err := authorization.GetClaimMapperFromConfig(&p.cfg.Global.Authorization, logs)
	if err != nil {
		return nil, err
	}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for name, service := range p.cfg.Services {
		address := net.JoinHostPort(reachable(service.RPC.BindOnIP), strconv.Itoa(service.RPC.GRPCPort))
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(address)
	}
	return temporal.NewServer(
		temporal.WithConfig(p.cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts), // one process: there is no membership to find out
		temporal.WithLogger(logs),
		temporal.WithAuthorizer(authorizer),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return mapper }),
		temporal.WithDynamicConfigClient(p.dynamic),
	)
}

// startUI starts the web UI, or returns nil if there is to be none. Its port was free a moment ago; should another
// process have taken it since, the UI ends this one with a message.
func startUI(p *plan) *uiserver.Server {
	if p.headless {
		return nil
	}
	host := p.uiIP
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	ui := uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
		TemporalGRPCAddress: p.frontend,
		Host:                host,
		Port:                p.uiPort,
		PublicPath:          p.uiPublicPath,
		EnableUI:            true,
		UIAssetPath:         p.uiAssetPath,
		Codec:               uiconfig.Codec{Endpoint: p.uiCodecEndpoint},
		CORS:                uiconfig.CORS{CookieInsecure: true},
		DefaultNamespace:    p.namespaces[0],
		DisableNewsFetch:    true,
		HideLogs:            true,
	}))
	go func() { _ = ui.Start() }() // returns nil after Stop and nothing else
	return ui
}

// waitReady returns once clients can work: the frontend serves, and every namespace can be described.
func waitReady(ctx context.Context, p *plan) error {
	conn, err := grpc.NewClient(p.frontend, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := checkReady(ctx, conn, p.namespaces)
		if err == nil && !p.headless {
			err = checkUI(ctx, p.uiAddress())
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

func checkReady(ctx context.Context, conn *grpc.ClientConn, namespaces []string) error {
	health, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{
		Service: workflowservice.WorkflowService_ServiceDesc.ServiceName,
	})
	if err != nil {
		return err
	}
	if health.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("frontend is %v", health.Status)
	}
	for _, name := range namespaces {
		_, err := workflowservice.NewWorkflowServiceClient(conn).DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name})
		if err != nil {
			return fmt.Errorf("namespace %q: %w", name, err)
		}
	}
	return nil
}

// checkUI reports whether somebody listens at address.
func checkUI(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("web UI: %w", err)
	}
	return conn.Close()
}

// stop ends both in an orderly way, for at most stopWithin.
func stop(server temporal.Server, ui *uiserver.Server) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if ui != nil {
			ui.Stop()
		}
		_ = server.Stop() // it always returns nil
	}()
	select {
	case <-done:
	case <-time.After(stopWithin):
	}
}
