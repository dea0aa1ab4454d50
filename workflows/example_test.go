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
func ExampleNewInterceptor() {
	var store *blob.Dir // opened by the caller
	engine, err := activities.New(activities.Config{Pipeline: pipeline.New(pipeline.Config{}), Blobs: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	gate, err := workflows.NewInterceptor(workflows.Config{Decide: activities.AssentDecide, Admit: activities.AssentAdmit})
	if err != nil {
		fmt.Println(err)
		return
	}
	options := sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{gate, activities.NewInterceptor(engine)}}
	fmt.Println(len(options.Interceptors), "interceptors, the last of the worker's")
	// Output: 2 interceptors, the last of the worker's
}
