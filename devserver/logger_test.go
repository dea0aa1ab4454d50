package main

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/server/common/log/tag"
)

func TestFatalEndsTheGoroutineAndSaysWhy(t *testing.T) {
	var out bytes.Buffer
	fatal := make(chan string, 1)
	logs := newLogger(&out, "json", slog.LevelWarn, fatal)
	went := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		logs.With(tag.NewStringTag("who", "me")).Fatal("no listener", tag.Error(errors.New("in use")))
		went = true
	}()
	<-done
	assert.False(t, went)
	assert.Equal(t, "no listener: in use", <-fatal)
	assert.Contains(t, out.String(), `"msg":"no listener","who":"me"`)

	for range 2 { // a second one neither blocks nor replaces the first
		done := make(chan struct{})
		go func() { defer close(done); logs.Panic("late") }()
		<-done
	}
	assert.Equal(t, "late", <-fatal)
}

func TestLevels(t *testing.T) {
	var out bytes.Buffer
	var level slog.LevelVar
	level.Set(slog.LevelWarn)
	logs := newLogger(&out, "text", &level, make(chan string, 1))
	logs.Debug("d")
	logs.Info("i")
	assert.Empty(t, out.String())
	logs.Warn("w", tag.NewInt("n", 3))
	logs.Error("e")
	logs.DPanic("p")
	assert.Regexp(t, `(?s)level=WARN msg=w n=3\n.*level=ERROR msg=e\n.*level=ERROR msg=p\n`, out.String())
	out.Reset()
	level.Set(levelNever)
	logs.Error("e")
	logs.SLog().Error("e")
	assert.Empty(t, out.String())
}
