package main

import (
	"io"
	"log/slog"

	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/plugins"
)

// stack returns plugins for assent.Config.Plugins, in their order, and the logger for assent.Config.Log and the client.
func stack(metrics client.MetricsHandler, record io.Writer, log slog.Handler) ([]pipeline.Plugin, *slog.Logger, error) {
	redactor, err := plugins.NewRedactor(plugins.RedactConfig{
		Patterns: []plugins.Pattern{{Kind: "ticket", Expr: `\bINT-(\d{6})\b`, Keywords: []string{"INT-"}}},
	})
	if err != nil {
		return nil, nil, err
	}
	logger := slog.New(redactor.Handler(log))
	loop, err := plugins.Loop(plugins.LoopConfig{Calls: 4, Except: []string{"job_status"}})
	if err != nil {
		return nil, nil, err
	}
	measure, err := plugins.Metrics(plugins.MetricsConfig{Recorder: temporal{metrics}})
	if err != nil {
		return nil, nil, err
	}
	audit, err := plugins.Audit(plugins.AuditConfig{Writer: record})
	if err != nil {
		return nil, nil, err
	}
	retry, err := plugins.Retry(plugins.RetryConfig{Attempts: 3, Log: logger})
	if err != nil {
		return nil, nil, err
	}
	return []pipeline.Plugin{redactor.Plugin(), loop, measure, audit, retry}, logger, nil
}
