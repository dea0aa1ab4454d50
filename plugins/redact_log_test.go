package plugins_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
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

// What is in a group that names a secret is one, however the group was opened; numbers and other groups stay.
func TestGroupsThatNameASecret(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(redactor(t, plugins.RedactConfig{}).Handler(slog.NewTextHandler(&b, nil)))
	log.Info("m", slog.Group("password", "old", "hunter2", "more", []string{"hunter2"}, slog.Group("in", "x", "hunter2"), "n", 7), "user", "bob")
	log.WithGroup("db_password").WithGroup("in").With("with", "hunter2").Info("m", "old", "hunter2", "any", map[string]string{"a": "hunter2"})
	log.Info("m", "password", slog.GroupValue(slog.String("a", "hunter2")), slog.Group("in", "password", "hunter2", "user", "bob"))
	log.WithGroup("in").Info("m", "user", "bob")
	assert.NotContains(t, b.String(), "hunter2")
	assert.Equal(t, 8, strings.Count(b.String(), "[redacted:password]"), b.String())
	assert.Equal(t, 3, strings.Count(b.String(), "user=bob"))
	assert.Contains(t, b.String(), "password.n=7")

	b.Reset()
	log = slog.New(redactor(t, plugins.RedactConfig{Without: []string{"password"}}).Handler(slog.NewTextHandler(&b, nil)))
	log.WithGroup("password").Info("m", "a", "kept")
	assert.Contains(t, b.String(), "password.a=kept")
}

// wordy is an error that says more in the form in which a text handler prints it.
type wordy struct{}

func (wordy) Error() string { return "it failed" }

func (wordy) Format(s fmt.State, _ rune) {
	text := "it failed"
	if s.Flag('+') {
		text += ": dial with password=hunter2"
	}
	_, _ = io.WriteString(s, text)
}

func TestErrorsThatSayMoreInALog(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(redactor(t, plugins.RedactConfig{}).Handler(slog.NewTextHandler(&b, nil)))
	log.With("with", wordy{}).Info("m", "error", wordy{}, slog.Group("in", "error", wordy{}))
	assert.NotContains(t, b.String(), "hunter2")
	assert.Equal(t, 3, strings.Count(b.String(), "[redacted:password]"), b.String())
}
