package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// waitReady returns once clients can work with the namespace and every other port is listened on, or ctx has ended.
func waitReady(ctx context.Context, ports chosenPorts, namespace string) error {
	conn, err := grpc.NewClient(hostPort(ports.grpc),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// The default waits a second after the first refused connection, which is twice what the server needs.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return err
	}
	defer conn.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := checkReady(ctx, conn, namespace)
		for _, port := range []int{ports.http, ports.ui} {
			if err == nil && port != 0 {
				err = checkPort(ctx, port)
			}
		}
		if err == nil {
			return nil
		}
		if wrong := (*attributeTypeError)(nil); errors.As(err, &wrong) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func checkReady(ctx context.Context, conn *grpc.ClientConn, namespace string) error {
	health, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{
		Service: workflowservice.WorkflowService_ServiceDesc.ServiceName,
	})
	if err != nil {
		return err
	}
	if health.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("the frontend is %v", health.Status)
	}
	_, err = workflowservice.NewWorkflowServiceClient(conn).DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("describe namespace %q: %w", namespace, err)
	}
	return checkAttributes(ctx, operatorservice.NewOperatorServiceClient(conn), namespace)
}

// checkPort reports whether somebody listens on port.
func checkPort(ctx context.Context, port int) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", hostPort(port))
	if err != nil {
		return err
	}
	return conn.Close()
}

// attributeTypeError reports a search attribute that exists with another type. Waiting does not help.
type attributeTypeError struct {
	name         string
	have, wanted enumspb.IndexedValueType
}

func (e *attributeTypeError) Error() string {
	return fmt.Sprintf("search attribute %q is %v in this database and %v here", e.name, e.have, e.wanted)
}

// checkAttributes makes sure that the namespace has the search attributes. The programs create them together with a
// namespace; the Temporal command does not do so for a namespace that its database file already has.
func checkAttributes(ctx context.Context, operator operatorservice.OperatorServiceClient, namespace string) error {
	list, err := operator.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("list the search attributes of namespace %q: %w", namespace, err)
	}
	missing := map[string]enumspb.IndexedValueType{}
	for name, wanted := range searchAttributes {
		have, ok := list.CustomAttributes[name]
		if !ok {
			missing[name] = wanted
		} else if have != wanted {
			return &attributeTypeError{name: name, have: have, wanted: wanted}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = operator.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing})
	if err != nil {
		return fmt.Errorf("add search attributes to namespace %q: %w", namespace, err)
	}
	return fmt.Errorf("namespace %q: %d search attributes were missing and have just been added", namespace, len(missing))
}
