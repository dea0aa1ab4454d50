package activities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/activity"

	"github.com/assent-dev/assent/protocol"
)

// wanted are the search attributes and their types.
var wanted = map[string]enumspb.IndexedValueType{
	protocol.AttrStatus:      enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	protocol.AttrAgent:       enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	protocol.AttrPendingTool: enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST,
	protocol.AttrRoot:        enumspb.INDEXED_VALUE_TYPE_KEYWORD,
}

// attributeCheck remembers whether the namespace has our search attributes.
type attributeCheck struct {
	mu sync.Mutex
	// has is what the server said last, known that it ever said something.
	has, known bool
	next       time.Time
	// asking is closed when the server has answered; nil while nobody asks.
	asking chan struct{}
	// said is the last reason in the log: each is said once.
	said string
}

const (
	// A yes is short-lived, because writing an attribute that was removed fails workflow tasks.
	yesHolds = 20 * time.Second
	noHolds  = time.Minute
	// Nobody waits for all of it who has a deadline, but a server that is slow for a moment is no reason to write nothing for a minute.
	attributesTimeout = 5 * time.Second
)

// AssentAttributes is the local activity that asks anew whether search attributes can be written. It is a top-level
// function whose name is in histories.
func AssentAttributes(ctx context.Context) (protocol.AttributesResponse, error) {
	e, err := engineFrom(ctx)
	if err != nil {
		return protocol.AttributesResponse{}, err
	}
	return protocol.AttributesResponse{Attributes: e.attributes(ctx)}, nil
}

// AssentContinue is the local activity that names the run to an agent which has continued as new: workflow code cannot tell
// a run from one before its reset. It refuses a state that no gate with the key has left. It is a top-level function whose
// name is in histories.
func AssentContinue(ctx context.Context, req protocol.ContinueRequest) (protocol.ContinueResponse, error) {
	e, err := engineFrom(ctx)
	if err != nil {
		return protocol.ContinueResponse{}, err
	}
	info := activity.GetInfo(ctx)
	resp := protocol.ContinueResponse{RunID: info.WorkflowExecution.RunID, Attributes: e.attributesNow(ctx)}
	place := protocol.StatePlace(info.Namespace, info.WorkflowExecution.ID)
	switch g := req.Grant; {
	case g == nil:
		resp.Refused = "it has no grant"
	case g.CallID != protocol.StateCall || g.RunID != req.Before:
		resp.Refused = "its grant is of another run"
	default:
		if err := e.cfg.Keys.Verify(*g, place, req.Digest, time.Now()); err != nil {
			resp.Refused = err.Error()
		}
	}
	if resp.Refused != "" {
		e.log.Error("assent: an agent was continued as new with a state that no worker with the key has left", "workflow", info.WorkflowExecution.ID,
			"run", info.WorkflowExecution.RunID, "before", req.Before, "reason", resp.Refused)
	}
	return resp, nil
}

// attributes reports whether the namespace has our search attributes with the right types. Upserting an unknown one would
// loop the workflow task, so every doubt is a no, unless they were there before. It waits for the server for a moment, and
// for less than the caller has.
func (e *Engine) attributes(ctx context.Context) bool {
	c := &e.attrs
	c.mu.Lock()
	if time.Now().Before(c.next) {
		defer c.mu.Unlock()
		return c.has
	}
	if c.asking == nil {
		c.asking = make(chan struct{})
		// Not bound to who asks first: others wait for the same answer.
		go e.findOut(context.WithoutCancel(ctx), c.asking)
	}
	answered := c.asking
	c.mu.Unlock()
	patience := time.NewTimer(attributesTimeout)
	if end, ok := ctx.Deadline(); ok {
		patience.Reset(min(attributesTimeout, time.Until(end)/4))
	}
	defer patience.Stop()
	select {
	case <-answered:
	case <-patience.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.has
}

// attributesNow is attributes as responses carry it: nil while nothing is known.
func (e *Engine) attributesNow(ctx context.Context) *bool {
	has := e.attributes(ctx)
	e.attrs.mu.Lock()
	defer e.attrs.mu.Unlock()
	if !e.attrs.known {
		return nil
	}
	return &has
}

// findOut asks the server and notes the answer.
func (e *Engine) findOut(ctx context.Context, answered chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, attributesTimeout)
	defer cancel()
	resp, err := listAttributes(ctx)
	c := &e.attrs
	c.mu.Lock()
	defer c.mu.Unlock()
	var reason string
	hold := noHolds
	switch {
	case errors.Is(err, errNoServer):
	case err != nil:
		reason = err.Error()
	default:
		c.known = true
		if reason = lacking(resp.GetCustomAttributes()); reason == "" {
			hold = yesHolds
		}
		c.has = reason == ""
	}
	if reason != "" && reason != c.said {
		// Without them nobody finds waiting runs.
		msg := "assent: search attributes will not be written"
		if c.has {
			msg = "assent: search attributes cannot be listed any more, and will be written all the same"
		}
		e.log.Warn(msg, "reason", reason)
	}
	c.said, c.next, c.asking = reason, time.Now().Add(hold), nil
	close(answered)
}

// lacking says which search attribute is missing or of another type.
func lacking(have map[string]enumspb.IndexedValueType) string {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if have[name] != wanted[name] {
			return fmt.Sprintf("the namespace has no %s of type %s", name, wanted[name])
		}
	}
	return ""
}

var errNoServer = errors.New("no server")

// listAttributes asks the server. In the SDK's test environments there is none, and asking panics.
func listAttributes(ctx context.Context) (resp *operatorservice.ListSearchAttributesResponse, err error) {
	defer func() {
		if recover() != nil {
			err = errNoServer
		}
	}()
	return activity.GetClient(ctx).OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{
		Namespace: activity.GetInfo(ctx).Namespace,
	})
}
