package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

// AuditConfig says where the record goes; Writer, Log or both are needed.
type AuditConfig struct {
	// Writer gets one JSON line for each outcome, each in a single Write; writes never overlap.
	Writer io.Writer
	// Log gets the same as attributes of one line: info for OK, warn for the rest.
	Log *slog.Logger
	// Input puts the arguments themselves into the record, beside their digest. They may hold secrets.
	Input bool
	// Now tells the time; nil is time.Now.
	Now func() time.Time
}

// AuditRecord is one line of the record.
type AuditRecord struct {
	Time time.Time `json:"time"`
	// Run is the workflow run, Agent the type of the agent; empty in a bare Execute.
	Run   string `json:"run,omitempty"`
	Agent string `json:"agent,omitempty"`
	Call  string `json:"call"`
	Tool  string `json:"tool"`
	// Risk is "undeclared" when the tool declares none.
	Risk string    `json:"risk"`
	Code tool.Code `json:"code"`
	// Reason and By tell why, and by whom or what, a call was refused.
	Reason tool.Reason `json:"reason,omitempty"`
	By     string      `json:"by,omitempty"`
	// Approval is the key under which somebody allowed the call, ApprovedBy who.
	Approval   string `json:"approval,omitempty"`
	ApprovedBy string `json:"approvedBy,omitempty"`
	// Attempt is 0 for calls that never reached a tool.
	Attempt int `json:"attempt"`
	// InputDigest is the hex SHA-256 of the canonical arguments; of the bytes as they are, after `raw:`, if they are not JSON; absent if
	// there are none, or none at hand.
	InputDigest string          `json:"inputDigest,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Modified    bool            `json:"modified,omitempty"`
	// Started is true when an aborted call had begun.
	Started bool `json:"started,omitempty"`
	// Duration is the time of the execution in nanoseconds; absent if it did not run here.
	Duration *time.Duration `json:"durationNs,omitempty"`
}

// Audit returns the plugin that records every outcome once: allowed, refused, unknown, failed. It writes neither results
// nor messages, and arguments only if asked to. A writer that fails is reported by the pipeline's log and changes
// nothing for the call. After a short write the next line begins on a line of its own.
func Audit(config AuditConfig) (pipeline.Plugin, error) {
	if isNil(config.Writer) && config.Log == nil {
		return nil, fault.Configf("audit", "has neither a writer nor a log")
	}
	if isNil(config.Writer) {
		config.Writer = nil
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	a := &audit{config: config, begun: map[attempt]time.Time{}}
	return pipeline.PluginFunc("audit", func(s *pipeline.Scope) error {
		if err := s.Wrap(a.wrap); err != nil {
			return err
		}
		return s.Observe(a.observe)
	}), nil
}

// attempt identifies an execution on this worker.
type attempt struct {
	run, call string
	n         int
}

type audit struct {
	config AuditConfig

	mu    sync.Mutex
	begun map[attempt]time.Time

	writing sync.Mutex
	// torn says that the last write ended in the middle of a line.
	torn bool
}

// mostBegun bounds the executions whose beginning is remembered, should their outcomes never be observed.
const mostBegun = 10_000

func keyOf(call pipeline.Call) attempt { return attempt{runOf(call), call.ID, call.Attempt} }

// runOf is the run that a call belongs to; while the engine judges, only the agent knows it.
func runOf(call pipeline.Call) string {
	if call.RunID == "" && call.Agent != nil {
		return call.Agent.RunID
	}
	return call.RunID
}

// wrap notes when the execution begins; how it ends is for observe to tell.
func (a *audit) wrap(ctx context.Context, call pipeline.Call, next func(context.Context) tool.Result) (tool.Result, error) {
	now := a.config.Now()
	a.mu.Lock()
	// Inside a retry the first beginning counts.
	if _, ok := a.begun[keyOf(call)]; !ok && len(a.begun) < mostBegun {
		a.begun[keyOf(call)] = now
	}
	a.mu.Unlock()
	return next(ctx), nil
}

func (a *audit) observe(ctx context.Context, call pipeline.Call, result tool.Result) error {
	a.mu.Lock()
	begun, ran := a.begun[keyOf(call)]
	delete(a.begun, keyOf(call))
	a.mu.Unlock()

	r := AuditRecord{
		Time: a.config.Now().UTC(), Run: runOf(call), Call: call.ID, Tool: call.Name, Risk: string(call.Info.Risk), Code: result.Code,
		Attempt: call.Attempt, InputDigest: inputDigest(call.Input), Modified: call.Modified,
	}
	if r.Risk == "" {
		r.Risk = "undeclared"
	}
	if call.Agent != nil {
		r.Agent = call.Agent.Type
	}
	if f := result.Failure; f != nil {
		r.Reason, r.By, r.Started = f.Reason, f.By, f.Started
	}
	if call.Approved != nil {
		r.Approval, r.ApprovedBy = call.Approved.Key, call.Approved.By
	}
	if ran {
		d := max(r.Time.Sub(begun), 0)
		r.Duration = &d
	}
	if a.config.Input && len(call.Input) > 0 {
		r.Input = call.Input
		if !json.Valid(call.Input) {
			r.Input, _ = json.Marshal(string(call.Input))
		}
	}
	// Neither is missed because the other fails.
	return errors.Join(a.log(ctx, r), a.write(r))
}

func inputDigest(input json.RawMessage) string {
	if len(input) == 0 {
		return ""
	}
	canonical, err := canonjson.Canonical(input)
	if err != nil {
		return "raw:" + canonjson.SHA256(input)
	}
	return canonjson.SHA256(canonical)
}

func (a *audit) write(r AuditRecord) error {
	if a.config.Writer == nil {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode audit record: %w", err)
	}
	a.writing.Lock()
	defer a.writing.Unlock()
	if a.torn {
		line = append([]byte("\n"), line...)
	}
	line = append(line, '\n')
	// A writer that panics may have written anything.
	before := a.torn
	a.torn = true
	n, err := a.config.Writer.Write(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	switch {
	case n <= 0:
		a.torn = before
	case n >= len(line):
		a.torn = false
	}
	if err != nil {
		return fmt.Errorf("write audit record of call %q: %w", r.Call, err)
	}
	return nil
}

func (a *audit) log(ctx context.Context, r AuditRecord) (err error) {
	if a.config.Log == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("log audit record of call %q: panic: %v", r.Call, p)
		}
	}()
	level := slog.LevelWarn
	if r.Code == tool.OK {
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{
		slog.String("run", r.Run), slog.String("agent", r.Agent), slog.String("call", r.Call), slog.String("tool", r.Tool),
		slog.String("risk", r.Risk), slog.String("code", string(r.Code)), slog.String("reason", string(r.Reason)), slog.String("by", r.By),
		slog.String("approval", r.Approval), slog.String("approvedBy", r.ApprovedBy), slog.Int("attempt", r.Attempt),
		slog.String("inputDigest", r.InputDigest), slog.Bool("modified", r.Modified),
	}
	if r.Duration != nil {
		attrs = append(attrs, slog.Duration("duration", *r.Duration))
	}
	if len(r.Input) > 0 {
		attrs = append(attrs, slog.String("input", string(r.Input)))
	}
	a.config.Log.LogAttrs(ctx, level, "audit", attrs...)
	return nil
}
