package plugins

import (
	"encoding/json"
	"reflect"
	"sync"
	"time"
)

// Counts is a Recorder that keeps numbers in memory. Its String is JSON, so it is an expvar.Var:
// expvar.Publish("assent", counts). The zero Counts is ready.
type Counts struct {
	mu     sync.Mutex
	values map[string]int64
	times  map[string]Timing
}

// Timing sums up durations.
type Timing struct {
	Count int64         `json:"count"`
	Sum   time.Duration `json:"sumNs"`
	Max   time.Duration `json:"maxNs"`
}

func series(metric string, l Labels) string {
	s := metric + `{tool="` + l.Tool + `"`
	if l.Code != "" {
		s += `,code="` + string(l.Code) + `"`
	}
	return s + "}"
}

// Count adds n to a counter.
func (c *Counts) Count(metric string, n int64, labels Labels) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.init()
	c.values[series(metric, labels)] += n
}

// Gauge sets the present value.
func (c *Counts) Gauge(metric string, value int64, labels Labels) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.init()
	c.values[series(metric, labels)] = value
}

// Time adds one duration.
func (c *Counts) Time(metric string, d time.Duration, labels Labels) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.init()
	t := c.times[series(metric, labels)]
	c.times[series(metric, labels)] = Timing{Count: t.Count + 1, Sum: t.Sum + d, Max: max(t.Max, d)}
}

func (c *Counts) init() {
	if c.values == nil {
		c.values, c.times = map[string]int64{}, map[string]Timing{}
	}
}

// Value returns the counter or gauge with these labels; zero if it was never set.
func (c *Counts) Value(metric string, labels Labels) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[series(metric, labels)]
}

// Timing returns the durations with these labels.
func (c *Counts) Timing(metric string, labels Labels) Timing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times[series(metric, labels)]
}

// String returns everything as one JSON object, sorted by name.
func (c *Counts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]any{}
	for k, v := range c.values {
		all[k] = v
	}
	for k, v := range c.times {
		all[k] = v
	}
	b, err := json.Marshal(all)
	if err != nil {
		return "{}"
	}
	return string(b)
}

// isNil reports whether an interface holds nothing, or a nil pointer.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Func, reflect.Chan, reflect.Interface, reflect.Slice:
		return r.IsNil()
	}
	return false
}
