package workflows_test

import (
	"fmt"

	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/assent-dev/assent/activities"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/workflows"
)

// The two halves of the seam meet only on a worker: the gate in front of workflow code gives out grants, the one in
// front of activities demands them. The package worker does this.
func ExampleNewInterceptors() {
	var store *blob.Dir // opened by the caller
	engine, err := activities.New(activities.Config{Pipeline: pipeline.New(pipeline.Config{}), Blobs: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	first, last, err := workflows.NewInterceptors(workflows.Config{Decide: activities.AssentDecide, DecideTurn: activities.AssentDecideTurn, Admit: activities.AssentAdmit})
	if err != nil {
		fmt.Println(err)
		return
	}
	options := sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{first, last, activities.NewInterceptor(engine)}}
	fmt.Println(len(options.Interceptors), "interceptors; those of a team stand after the first")
	// Output: 3 interceptors; those of a team stand after the first
}
