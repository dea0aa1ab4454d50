package main

import (
	"time"

	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/plugins"
)

// temporal sends numbers to the metrics handler that a Temporal client or worker has.
type temporal struct{ handler client.MetricsHandler }

func (t temporal) with(l plugins.Labels) client.MetricsHandler {
	tags := map[string]string{"tool": l.Tool}
	if l.Code != "" {
		tags["code"] = string(l.Code)
	}
	return t.handler.WithTags(tags)
}

func (t temporal) Count(metric string, n int64, l plugins.Labels) { t.with(l).Counter(metric).Inc(n) }

func (t temporal) Gauge(metric string, value int64, l plugins.Labels) {
	t.with(l).Gauge(metric).Update(float64(value))
}

func (t temporal) Time(metric string, d time.Duration, l plugins.Labels) {
	t.with(l).Timer(metric).Record(d)
}
