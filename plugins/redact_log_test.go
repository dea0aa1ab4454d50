package plugins_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/assent-dev/assent/plugins"
)

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("password=hunter2") }

func TestAttributesThatPanic(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(redactor(t, plugins.RedactConfig{}).Handler(slog.NewJSONHandler(&b, nil)))
	log.With("c", panics{}).Info("m", "a", panics{}, "b", 1)
	assert.NotContains(t, b.String(), "hunter2")
	assert.Contains(t, b.String(), `"b":1`)
}
