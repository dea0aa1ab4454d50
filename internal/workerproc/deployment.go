package workerproc

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/config"
)

// versioning makes the worker a version of its deployment, if the file says so.
func versioning(d config.Deployment) worker.DeploymentOptions {
	if d.Name == "" {
		return worker.DeploymentOptions{}
	}
	o := worker.DeploymentOptions{UseVersioning: true, DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
		Version: worker.WorkerDeploymentVersion{DeploymentName: d.Name, BuildID: d.BuildID}}
	if d.Behavior == config.AutoUpgrade {
		o.DefaultVersioningBehavior = workflow.VersioningBehaviorAutoUpgrade
	}
	return o
}

// build is what the line that says that the worker is ready adds for one with a version.
func (p *Process) build() string {
	if p.deployment.Name == "" {
		return ""
	}
	return fmt.Sprintf(", build %q of deployment %q", p.deployment.BuildID, p.deployment.Name)
}

// notCurrent says that no new agent comes to this build yet, and what changes that.
func (p *Process) notCurrent(ctx context.Context, w io.Writer) {
	if p.deployment.Name == "" || p.isRouted(ctx) {
		return
	}
	fmt.Fprintf(w, "note: new agents go to this build once it is current: temporal worker deployment set-current-version "+
		"--address %s -n %s --deployment-name %s --build-id %s\n", shellQuote(p.Server.Address), shellQuote(p.Server.Namespace),
		shellQuote(p.deployment.Name), shellQuote(p.deployment.BuildID))
}

// describeWithin bounds a look at the deployment, which is news and no condition.
const describeWithin = 3 * time.Second

// isRouted reports whether new agents come to this version, all or some of them. A deployment that the server does not
// know yet routes none; when the server does not say in time, nothing is wrong.
func (p *Process) isRouted(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, describeWithin)
	defer cancel()
	d, err := p.Server.Client.WorkerDeploymentClient().GetHandle(p.deployment.Name).Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return ctx.Err() != nil
	}
	for _, v := range []*worker.WorkerDeploymentVersion{d.Info.RoutingConfig.CurrentVersion, d.Info.RoutingConfig.RampingVersion} {
		if v != nil && v.BuildID == p.deployment.BuildID {
			return true
		}
	}
	return false
}

// shellQuote quotes for a POSIX shell what would not be one word as it is.
func shellQuote(s string) string {
	if strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./:@+", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
