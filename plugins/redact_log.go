package plugins

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Handler returns a slog.Handler that redacts messages and attributes before h sees them. Attributes whose key, or
// whose group's, names a secret are redacted as a whole. What cannot be printed is dropped.
func (r *Redactor) Handler(h slog.Handler) slog.Handler { return &logHandler{r, h, nil} }

type logHandler struct {
	redactor *Redactor
	to       slog.Handler
	// group is the secret that the name of an open group says that its members are; nil if none does.
	group *secretWord
}

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

func (h *logHandler) Handle(ctx context.Context, rec slog.Record) error {
	out := slog.NewRecord(rec.Time, rec.Level, h.text(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a, h.group))
		return true
	})
	return h.to.Handle(ctx, out)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for n, a := range attrs {
		clean[n] = h.attr(a, h.group)
	}
	return &logHandler{h.redactor, h.to.WithAttrs(clean), h.group}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.redactor, h.to.WithGroup(name), h.named(name, h.group)}
}

// named is the secret that a name says its value is, else outer.
func (h *logHandler) named(name string, outer *secretWord) *secretWord {
	if word, is := secretName(name); is && !h.redactor.without[word.kind] {
		return &word
	}
	return outer
}

func (h *logHandler) text(s string) (out string) {
	defer func() {
		if recover() != nil {
			out = withheldUnsearched
		}
	}()
	return h.redactor.Text(s)
}

// attr redacts an attribute in a group that names a secret, if group is set. One whose own methods panic is withheld.
func (h *logHandler) attr(a slog.Attr, group *secretWord) (clean slog.Attr) {
	defer func() {
		if recover() != nil {
			clean = slog.String(a.Key, withheldUnsearched)
		}
	}()
	v := a.Value.Resolve()
	word := h.named(a.Key, group)
	switch v.Kind() {
	case slog.KindGroup:
		members := v.Group()
		clean := make([]slog.Attr, len(members))
		for n, m := range members {
			clean[n] = h.attr(m, word)
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(clean...)}
	case slog.KindString:
		return slog.String(a.Key, h.under(word, v.String()))
	case slog.KindAny:
		if clean, changed := h.value(word, v.Any()); changed {
			return slog.String(a.Key, clean)
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// under redacts the text of an attribute.
func (h *logHandler) under(word *secretWord, text string) string {
	if word != nil && word.secret(text) {
		return mark(word.kind)
	}
	return h.text(text)
}

// value redacts what handlers may print of a value: its text, the longer text that some errors have, or its JSON.
func (h *logHandler) value(word *secretWord, v any) (clean string, changed bool) {
	for _, text := range []string{printed(v), fmt.Sprintf("%+v", v)} {
		if clean := h.under(word, text); clean != text {
			return clean, true
		}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "", false
	}
	if clean := h.under(word, string(raw)); clean != string(raw) {
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
