package workflows

import (
	"fmt"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// operationName is how a guard names a Nexus operation: service/operation.
func operationName(in interceptor.ExecuteNexusOperationInput) string {
	name := ""
	switch op := in.Operation.(type) {
	case string:
		name = op
	case interface{ Name() string }:
		name = op.Name()
	default:
		name = fmt.Sprint(op)
	}
	if in.Client == nil {
		return name
	}
	return in.Client.Service() + "/" + name
}

// refusing is a context in which the SDK starts nothing and returns futures that have failed. They have to be its own:
// a selector takes no others.
type refusing struct {
	workflow.Context
	err error
}

func (r refusing) Err() error { return r.err }
