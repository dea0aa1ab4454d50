package pipeline

import (
	"context"
	"log/slog"

	"github.com/assent-dev/assent/tool"
)

// Log returns the plugin that writes one line for each outcome: info for OK, warn for the rest. It writes names,
// codes and who refused, never arguments, results or messages, which may hold what stage 4 is there to hide.
// A nil log is slog.Default.
func Log(log *slog.Logger) Plugin {
	return PluginFunc("log", func(s *Scope) error {
		return s.Observe(func(ctx context.Context, call Call, result tool.Result) error {
			to, level := log, slog.LevelWarn
			if to == nil {
				to = slog.Default()
			}
			if result.IsOK() {
				level = slog.LevelInfo
			}
			attrs := []slog.Attr{
				slog.String("tool", call.Name), slog.String("call", call.ID),
				slog.Int("attempt", call.Attempt), slog.String("code", string(result.Code)),
			}
			if f := result.Failure; f != nil && f.Reason != "" {
				attrs = append(attrs, slog.String("reason", string(f.Reason)), slog.String("by", f.By))
			}
			if a := call.Agent; a != nil {
				attrs = append(attrs, slog.String("run", a.RunID), slog.String("agent", a.Type))
			}
			if a := call.Approved; a != nil {
				attrs = append(attrs, slog.String("approvedBy", a.By))
			}
			to.LogAttrs(ctx, level, "tool call", attrs...)
			return nil
		})
	})
}
