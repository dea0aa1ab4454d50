//go:build unix

package devserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// actVariable makes the test binary act as another program: see TestMain.
const actVariable = "DEVSERVER_TEST_ACT"

func TestMain(m *testing.M) {
	switch act := os.Getenv(actVariable); act {
	case "":
		os.Exit(m.Run())
	case "locate": // a process that wants the server built
		b, err := testLocator(os.Getenv("ROOT"), os.Getenv("CACHE"), os.Stderr).locate(context.Background())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(b.Path)
	case "owner": // a process that starts a server and waits to be killed
		os.Setenv(actVariable, "serve")
		s, err := Start(context.Background(), StartOptions{Binary: Binary{Path: os.Args[0]}, Detach: os.Getenv("DETACH") != ""})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"port": s.ports.grpc, "pid": s.PID()})
		select {}
	default:
		os.Exit(actAsServer(act, os.Args[1:]))
	}
}

// actAsServer is a server program that does one thing wrong, or nothing.
func actAsServer(act string, args []string) int {
	if f, err := os.OpenFile(os.Getenv("STARTS"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintln(f, strings.Join(args, " "))
		_ = f.Close()
	}
	switch act {
	case "crash":
		for i := range 100 {
			fmt.Println("line", i)
		}
		return 1
	case "usage":
		fmt.Println("error: unknown flag")
		return exitUsage
	case "quit":
		return 0
	case "hang":
		select {}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	if err := serveFake(act, args); err != nil {
		fmt.Println(err)
		return 1
	}
	for range signals {
		switch act {
		case "stubborn":
		case "sour":
			return 3
		default:
			return 0
		}
	}
	return 0
}

func flagValue(args []string, name string) string {
	for i := range args[:len(args)-1] {
		if args[i] == name {
			return args[i+1]
		}
	}
	return ""
}

// listeners are kept open by being here.
var listeners []net.Listener

// serveFake answers what Start asks.
func serveFake(act string, args []string) error {
	var l net.Listener // the last one speaks gRPC
	for _, flag := range []string{"--http-port", "--ui-port", "--port"} {
		if port := flagValue(args, flag); port != "" {
			var err error
			if l, err = net.Listen("tcp", "127.0.0.1:"+port); err != nil {
				return err
			}
			listeners = append(listeners, l)
		}
	}
	s := grpc.NewServer()
	h := health.NewServer()
	h.SetServingStatus(workflowservice.WorkflowService_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s, h)
	workflowservice.RegisterWorkflowServiceServer(s, fakeWorkflowService{})
	o := &fakeOperatorService{attributes: map[string]enumspb.IndexedValueType{}}
	if act == "othertype" {
		o.attributes["AssentStatus"] = enumspb.INDEXED_VALUE_TYPE_TEXT
	}
	operatorservice.RegisterOperatorServiceServer(s, o)
	go func() { _ = s.Serve(l) }()
	return nil
}

type fakeWorkflowService struct {
	workflowservice.UnimplementedWorkflowServiceServer
}

func (fakeWorkflowService) DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest) (*workflowservice.DescribeNamespaceResponse, error) {
	return &workflowservice.DescribeNamespaceResponse{}, nil
}

// fakeOperatorService has a namespace without search attributes, as the Temporal command's old database files do. It
// is asked by one goroutine only.
type fakeOperatorService struct {
	operatorservice.UnimplementedOperatorServiceServer
	attributes map[string]enumspb.IndexedValueType
}

func (f *fakeOperatorService) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: f.attributes}, nil
}

func (f *fakeOperatorService) AddSearchAttributes(_ context.Context, r *operatorservice.AddSearchAttributesRequest) (*operatorservice.AddSearchAttributesResponse, error) {
	for name, kind := range r.SearchAttributes {
		f.attributes[name] = kind
	}
	return &operatorservice.AddSearchAttributesResponse{}, nil
}

// assertGone waits until the process does nothing more. Whoever inherited it may take its time to collect what is
// left of it: on Linux that state can be told.
func assertGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
			_, after, _ := bytes.Cut(stat, []byte(") "))
			return bytes.HasPrefix(after, []byte("Z"))
		}
		return syscall.Kill(pid, 0) != nil
	}, 3*time.Minute, 5*time.Millisecond, "process %d", pid)
}
