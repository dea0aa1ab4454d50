package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// logger gives the server's log lines to slog, and its fatal ones to whoever waits for them: a fatal line of the
// stock logger ends the process with a stack trace.
type logger struct {
	slog  *slog.Logger
	fatal chan<- string
}

var (
	_ log.Logger      = logger{}
	_ log.WithLogger  = logger{}
	_ log.SLogWrapper = logger{}
)

// newLogger returns a logger that writes to w in format text, json or pretty. Messages of fatal lines go to the
// channel, which must have room for one.
func newLogger(w io.Writer, format string, level slog.Leveler, fatal chan<- string) logger {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return logger{slog: slog.New(slog.NewJSONHandler(w, o)), fatal: fatal}
	}
	return logger{slog: slog.New(slog.NewTextHandler(w, o)), fatal: fatal}
}

func (l logger) Debug(msg string, tags ...tag.Tag)  { l.log(slog.LevelDebug, msg, tags) }
func (l logger) Info(msg string, tags ...tag.Tag)   { l.log(slog.LevelInfo, msg, tags) }
func (l logger) Warn(msg string, tags ...tag.Tag)   { l.log(slog.LevelWarn, msg, tags) }
func (l logger) Error(msg string, tags ...tag.Tag)  { l.log(slog.LevelError, msg, tags) }
func (l logger) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }
func (l logger) Panic(msg string, tags ...tag.Tag)  { l.Fatal(msg, tags...) }

// Fatal ends the calling goroutine, because its callers do not expect it to return, and reports the message.
func (l logger) Fatal(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	for _, t := range tags {
		if t.Key() == "error" {
			msg = fmt.Sprintf("%s: %v", msg, t.Value())
		}
	}
	select {
	case l.fatal <- msg:
	default: // the first one is the reason
	}
	runtime.Goexit()
}

func (l logger) With(tags ...tag.Tag) log.Logger {
	return logger{slog: slog.New(l.slog.Handler().WithAttrs(attributes(tags))), fatal: l.fatal}
}

func (l logger) SLog() *slog.Logger { return l.slog }

func (l logger) log(level slog.Level, msg string, tags []tag.Tag) {
	if l.slog.Enabled(context.Background(), level) {
		l.slog.LogAttrs(context.Background(), level, msg, attributes(tags)...)
	}
}

func attributes(tags []tag.Tag) []slog.Attr {
	attrs := make([]slog.Attr, len(tags))
	for i, t := range tags {
		attrs[i] = slog.Any(t.Key(), t.Value())
	}
	return attrs
}
