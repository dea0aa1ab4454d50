package plugins

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Handler returns a slog.Handler that redacts messages and attributes before h sees them. Attributes whose key names a
// secret are redacted as a whole. What cannot be printed is dropped.
func (r *Redactor) Handler(h slog.Handler) slog.Handler { return &logHandler{r, h} }

type logHandler struct {
	redactor *Redactor
	to       slog.Handler
}

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

func (h *logHandler) Handle(ctx context.Context, rec slog.Record) error {
	out := slog.NewRecord(rec.Time, rec.Level, h.text(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.to.Handle(ctx, out)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for n, a := range attrs {
		clean[n] = h.attr(a)
	}
	return &logHandler{h.redactor, h.to.WithAttrs(clean)}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.redactor, h.to.WithGroup(name)}
}

func (h *logHandler) text(s string) (out string) {
	defer func() {
		if recover() != nil {
			out = withheldUnsearched
		}
	}()
	return h.redactor.Text(s)
}

// attr redacts an attribute. One whose own methods panic is withheld.
func (h *logHandler) attr(a slog.Attr) (clean slog.Attr) {
	defer func() {
		if recover() != nil {
			clean = slog.String(a.Key, withheldUnsearched)
		}
	}()
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		members := v.Group()
		clean := make([]slog.Attr, len(members))
		for n, m := range members {
			clean[n] = h.attr(m)
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(clean...)}
	case slog.KindString:
		return slog.String(a.Key, h.under(a.Key, v.String()))
	case slog.KindAny:
		if clean, changed := h.value(a.Key, v.Any()); changed {
			return slog.String(a.Key, clean)
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// under redacts the text of an attribute.
func (h *logHandler) under(key, text string) string {
	if word, is := secretName(key); is && !h.redactor.without[word.kind] && word.secret(text) {
		return mark(word.kind)
	}
	return h.text(text)
}

// value redacts what handlers may print of a value: its text, or its JSON.
func (h *logHandler) value(key string, v any) (clean string, changed bool) {
	text := printed(v)
	if clean := h.under(key, text); clean != text {
		return clean, true
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "", false
	}
	if clean := h.under(key, string(raw)); clean != string(raw) {
		return clean, true
	}
	return "", false
}

func printed(v any) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case fmt.Stringer, error:
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%+v", v)
}
