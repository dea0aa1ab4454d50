package activities

import (
	"context"
	"errors"
	"log/slog"
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
	mu   sync.Mutex
	has  bool
	next time.Time
	said bool
}

const (
	attributesEvery   = time.Minute
	attributesTimeout = time.Second
)

// attributes reports whether the namespace has our search attributes with the right types. Upserting an unknown
// one would loop the workflow task, so every doubt is a no. A yes is kept; a no is asked again after a minute.
func (e *Engine) attributes(ctx context.Context) bool {
	c := &e.attrs
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.has || time.Now().Before(c.next) {
		return c.has
	}
	c.next = time.Now().Add(attributesEvery)
	ctx, cancel := context.WithTimeout(ctx, attributesTimeout)
	defer cancel()
	resp, err := listAttributes(ctx)
	if errors.Is(err, errNoServer) {
		return false
	}
	if err != nil {
		e.withoutAttributes(ctx, "assent: search attributes cannot be listed; they will not be written", "error", err)
		return false
	}
	for name, kind := range wanted {
		if resp.GetCustomAttributes()[name] != kind {
			e.withoutAttributes(ctx, "assent: search attributes will not be written", "missing", name, "type", kind.String())
			return false
		}
	}
	c.has = true
	return true
}

// withoutAttributes warns once: nobody finds waiting runs. Later it only notes, for teams that want none.
func (e *Engine) withoutAttributes(ctx context.Context, msg string, args ...any) {
	level := slog.LevelWarn
	if e.attrs.said {
		level = slog.LevelInfo
	}
	e.attrs.said = true
	e.log.Log(ctx, level, msg, args...)
}

var errNoServer = errors.New("no server")

// listAttributes asks the server. In the SDK's test environments there is none, and asking panics.
func listAttributes(ctx context.Context) (resp *operatorservice.ListSearchAttributesResponse, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errNoServer
		}
	}()
	return activity.GetClient(ctx).OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{
		Namespace: activity.GetInfo(ctx).Namespace,
	})
}
