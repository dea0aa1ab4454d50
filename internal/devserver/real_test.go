//go:build unix

package devserver_test

import (
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/assent-dev/assent/internal/devserver"
	"github.com/assent-dev/assent/internal/devserver/devservertest"
)

var status = temporal.NewSearchAttributeKeyKeyword("AssentStatus")

// A crash and a restart on the same file, with whichever program this machine has.
func TestRealServerSurvivesACrash(t *testing.T) {
	o := devserver.StartOptions{
		Binary: devservertest.Binary(t), DBFile: filepath.Join(t.TempDir(), "x.db"), Namespace: "team", UI: true,
	}
	s, err := devserver.Start(t.Context(), o)
	require.NoError(t, err)
	c := dial(t, s)
	_, err = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: "survivor", TaskQueue: "none", TypedSearchAttributes: temporal.NewSearchAttributes(status.ValueSet("waiting")),
	}, "none")
	require.NoError(t, err)
	assert.Contains(t, get(t, s.UIURL()), "<html")
	assert.Contains(t, get(t, s.HTTPURL()+"/api/v1/cluster-info"), "serverVersion")
	require.NoError(t, s.Kill())

	s, err = devserver.Start(t.Context(), o)
	require.NoError(t, err)
	c = dial(t, s)
	list, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "AssentStatus = 'waiting'"})
	require.NoError(t, err)
	require.Len(t, list.Executions, 1)
	assert.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, list.Executions[0].Status)
	require.NoError(t, s.Stop(t.Context()))
}

func TestSharedServer(t *testing.T) {
	s := devservertest.Server(t)
	assert.Same(t, s, devservertest.Server(t))
	_, err := dial(t, s).WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "default"})
	require.NoError(t, err)
}

// A team's own tests may start the same program through the SDK.
func TestRealServerUnderTheSDKTestsuite(t *testing.T) {
	b := devservertest.Binary(t)
	t.Setenv("TEMPORAL_DEV_CONFIG", b.Config)
	s, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath:     b.Path,
		DBFilename:       filepath.Join(t.TempDir(), "x.db"),
		EnableUI:         true,
		LogFormat:        "json",
		LogLevel:         "error",
		SearchAttributes: temporal.NewSearchAttributes(status.ValueSet("any")),
	})
	require.NoError(t, err)
	_, err = s.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		TaskQueue: "none", TypedSearchAttributes: temporal.NewSearchAttributes(status.ValueSet("waiting")),
	}, "none")
	require.NoError(t, err)
	require.NoError(t, s.Stop(), "an interrupt is a clean end")
}

func dial(t *testing.T, s *devserver.Server) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: s.Address(), Namespace: s.Namespace()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
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
