package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// runVariable makes the test binary be the server, so that tests can kill one.
const runVariable = "DEVSERVER_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(runVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

var assentAttributes = map[string]enumspb.IndexedValueType{
	"AssentStatus":      enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	"AssentAgent":       enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	"AssentPendingTool": enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST,
	"AssentRoot":        enumspb.INDEXED_VALUE_TYPE_KEYWORD,
}

func TestServerSurvivesSIGKILL(t *testing.T) {
	db := filepath.Join(t.TempDir(), "x.db")
	first := startServer(t, "--db-filename", db, "--headless", "--port", "0")
	first.checkNamespace(t, "default", assentAttributes)
	_, err := workflowservice.NewWorkflowServiceClient(first.conn).StartWorkflowExecution(t.Context(), startRequest("survivor"))
	require.NoError(t, err)
	require.NoError(t, first.cmd.Process.Kill())
	require.Error(t, first.cmd.Wait())

	// The same file, one more namespace, and one more attribute that the old namespace lacks.
	second := startServer(t, "server", "start-dev", "--db-filename", db, "--headless", "--port", "0",
		"--namespace", "other", "--search-attribute", "Late=Int")
	assert.Contains(t, second.line, "namespace default, other, in "+db)
	wanted := map[string]enumspb.IndexedValueType{"Late": enumspb.INDEXED_VALUE_TYPE_INT}
	for name, kind := range assentAttributes {
		wanted[name] = kind
	}
	second.checkNamespace(t, "default", wanted)
	second.checkNamespace(t, "other", wanted)
	d, err := workflowservice.NewWorkflowServiceClient(second.conn).DescribeWorkflowExecution(t.Context(),
		&workflowservice.DescribeWorkflowExecutionRequest{Namespace: "default", Execution: startedExecution("survivor")})
	require.NoError(t, err)
	assert.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, d.WorkflowExecutionInfo.Status)
	second.stop(t, syscall.SIGTERM)

	// The same name with another type is refused, and nothing panics.
	out, err := serverCommand("--db-filename", db, "--headless", "--port", "0", "--search-attribute", "Late=Text").CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 1, exit.ExitCode())
	assert.Equal(t, "error: namespace \"default\": search attribute \"Late\" is Int there and Text here\n", string(out))
}

func TestUIAndHTTPAPI(t *testing.T) {
	s := startServer(t, "--port", "0", "--ui-port", "0")
	ui := regexp.MustCompile(`UI (http://127\.0\.0\.1:\d+)`).FindStringSubmatch(s.line)
	require.NotNil(t, ui, s.line)
	assert.Contains(t, get(t, ui[1]+"/"), "<html")
	api := regexp.MustCompile(`HTTP API on port (\d+)`).FindStringSubmatch(s.line)
	require.NotNil(t, api, s.line)
	var info struct{ ServerVersion string }
	require.NoError(t, json.Unmarshal([]byte(get(t, "http://127.0.0.1:"+api[1]+"/api/v1/cluster-info")), &info))
	assert.NotEmpty(t, info.ServerVersion)
	s.stop(t, syscall.SIGINT)
	// The server's own worker may ask before its frontend is ready, on a busy machine.
	said := slices.DeleteFunc(strings.SplitAfter(s.stderr.String(), "\n"), func(line string) bool {
		return line == "" || strings.Contains(line, "Frontend is not healthy yet")
	})
	assert.Empty(t, said, "a quiet server has nothing to say on its way out")
}

func TestInterruptWhileStarting(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	t.Setenv(configVariable, genuine)
	var stdout, stderr bytes.Buffer
	assert.Zero(t, run(ctx, []string{"--port", "0", "--headless"}, nil, &stdout, &stderr))
	assert.Empty(t, stdout.String())
}

// running is a server in a process of its own.
type running struct {
	cmd    *exec.Cmd
	line   string // that says it is ready
	stderr *bytes.Buffer
	conn   *grpc.ClientConn
}

func serverCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), runVariable+"=1", configVariable+"="+genuine)
	return cmd
}

func startServer(t *testing.T, args ...string) *running {
	t.Helper()
	s := &running{cmd: serverCommand(args...), stderr: &bytes.Buffer{}}
	s.cmd.Stderr = s.stderr
	stdout, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		_ = s.cmd.Wait()
		t.Fatalf("the server printed nothing but\n%s", s.stderr)
	}
	s.line = lines.Text()
	address := regexp.MustCompile(`^Temporal is ready at (127\.0\.0\.1:\d+),`).FindStringSubmatch(s.line)
	require.NotNil(t, address, s.line)
	s.conn, err = grpc.NewClient(address[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.conn.Close() })
	return s
}

func (s *running) stop(t *testing.T, signal syscall.Signal) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(signal))
	require.NoError(t, s.cmd.Wait(), "exit code 0; stderr: %s", s.stderr)
}

func (s *running) checkNamespace(t *testing.T, namespace string, wanted map[string]enumspb.IndexedValueType) {
	t.Helper()
	list, err := operatorservice.NewOperatorServiceClient(s.conn).ListSearchAttributes(t.Context(),
		&operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	require.NoError(t, err)
	assert.Equal(t, wanted, list.CustomAttributes)
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(body))
	return string(body)
}

// startRequest starts a workflow that no worker takes up. It carries a search attribute, because that is what an
// incomplete namespace refuses.
func startRequest(id string) *workflowservice.StartWorkflowExecutionRequest {
	return &workflowservice.StartWorkflowExecutionRequest{
		Namespace: "default", WorkflowId: id, RequestId: id,
		WorkflowType: &commonpb.WorkflowType{Name: "none"},
		TaskQueue:    &taskqueuepb.TaskQueue{Name: "none"},
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{
			"AssentStatus": {Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"waiting"`)},
		}},
	}
}

func startedExecution(id string) *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{WorkflowId: id}
}
