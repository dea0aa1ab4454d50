package cassette

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/model"
)

// version is that of the form of the file.
const version = 1

// The lines of a cassette: a head, then one exchange each.
type (
	head struct {
		Cassette int `json:"cassette"`
	}
	exchange struct {
		Request  json.RawMessage `json:"request"`
		Response json.RawMessage `json:"response,omitempty"`
		Error    *failure        `json:"error,omitempty"`
	}
	failure struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
		Retry   bool   `json:"retry,omitempty"`
		AfterMS int64  `json:"afterMs,omitempty"`
	}
	// request is a model.Request with names for its members.
	request struct {
		Model           string          `json:"model"`
		System          string          `json:"system,omitempty"`
		Messages        []model.Message `json:"messages"`
		Tools           []model.Spec    `json:"tools,omitempty"`
		MaxOutputTokens int             `json:"maxOutputTokens,omitempty"`
		OutputSchema    json.RawMessage `json:"outputSchema,omitempty"`
		Summary         *model.Summary  `json:"summary,omitempty"`
	}
)

// Options say what of a request is not written, and what does not tell two requests apart.
type Options struct {
	// Secrets are struck out wherever they stand, as are the values of environment variables whose names say that they are
	// secrets: a KEY, TOKEN, SECRET, PASSWORD or CREDENTIALS of eight bytes or more. Of that length on they are also found as JSON,
	// in a URL and in base64. Numbers stay.
	Secrets []string
	// Normalize makes texts equal that differ from run to run, such as times and the names of temporary folders. It gets every
	// string of a request, when it is recorded and when it is looked for. Nil changes nothing.
	Normalize func(string) string
}

// struck stands where a secret stood.
const struck = "[secret]"

// leastSecret is the length in bytes from which a value in the environment counts: a shorter one is likely to be a word.
const leastSecret = 8

// eraser strikes secrets out.
func (o Options) eraser() *strings.Replacer {
	secrets := slices.Clone(o.Secrets)
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		name = strings.ToUpper(name)
		for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS"} {
			if strings.Contains(name, word) && len(value) >= leastSecret {
				secrets = append(secrets, value)
			}
		}
	}
	var all []string
	for _, s := range secrets {
		all = append(all, forms(s)...)
	}
	// Of two that begin alike the longer one goes first.
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, s := range slices.Compact(all) {
		pairs = append(pairs, s, struck)
	}
	return strings.NewReplacer(pairs...)
}

// forms are the ways in which a secret is likely to stand in a text: as it is, in JSON, in a URL, and within base64, where it has
// three forms, of which the characters that depend on its neighbours are left out.
func forms(secret string) []string {
	if secret == "" {
		return nil
	}
	out := []string{secret}
	if len(secret) < leastSecret {
		return out
	}
	out = append(out, url.QueryEscape(secret), url.PathEscape(secret))
	for _, escape := range []bool{true, false} {
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(escape)
		if enc.Encode(secret) == nil {
			out = append(out, strings.Trim(text.String(), "\"\n"))
		}
	}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text := e.EncodeToString([]byte(strings.Repeat("x", before) + secret))
			from, to := (before*8+5)/6, (before+len(secret))*8/6
			out = append(out, text[from:to])
		}
	}
	return out
}

// tape makes lines and reads them.
type tape struct {
	erase     *strings.Replacer
	normalize func(string) string
}

func (o Options) tape() tape {
	t := tape{erase: o.eraser(), normalize: o.Normalize}
	if t.normalize == nil {
		t.normalize = func(s string) string { return s }
	}
	return t
}

// asked is the canonical form of a request.
func (t tape) asked(r model.Request) (json.RawMessage, error) {
	raw, err := json.Marshal(request{r.Model, r.System, r.Messages, r.Tools, r.MaxOutputTokens, r.OutputSchema, r.Summary})
	if err != nil {
		return nil, err
	}
	return t.form(raw)
}

// form is a request as it is written and looked for.
func (t tape) form(raw json.RawMessage) (json.RawMessage, error) {
	return rewrite(raw, func(s string) string { return t.normalize(t.erase.Replace(s)) }, t.erase.Replace)
}

// said is an exchange as it is written.
func (t tape) said(asked json.RawMessage, resp model.Response, failed error) (exchange, error) {
	e := exchange{Request: asked}
	if failed != nil {
		e.Error = &failure{Kind: "error", Message: t.erase.Replace(failed.Error())}
		if m, ok := asError(failed); ok {
			e.Error = &failure{Kind: m.Kind, Message: t.erase.Replace(m.Msg), Retry: m.Retry, AfterMS: m.After.Milliseconds()}
		}
		return e, nil
	}
	raw, err := json.Marshal(resp)
	if err == nil {
		e.Response, err = rewrite(raw, t.erase.Replace, t.erase.Replace)
	}
	return e, err
}

// answer is what was said.
func (e exchange) answer() (resp model.Response, err error) {
	if f := e.Error; f != nil {
		return resp, &model.Error{Kind: f.Kind, Msg: f.Message, Retry: f.Retry, After: time.Duration(f.AfterMS) * time.Millisecond}
	}
	err = strictly(e.Response, &resp)
	return resp, err
}

// rewrite gives every string of a JSON value another form, every name of a member too, and the value its canonical one.
func rewrite(raw json.RawMessage, change, name func(string) string) (json.RawMessage, error) {
	v := exact(raw)
	if v == nil {
		return nil, errors.New("no JSON value")
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			return change(v)
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			out := make(map[string]any, len(v))
			for _, k := range slices.Sorted(maps.Keys(v)) {
				out[name(k)] = walk(v[k])
			}
			return out
		}
		return v
	}
	out, err := json.Marshal(walk(v))
	if err != nil {
		return nil, err
	}
	return canonjson.Canonical(out)
}

// differs says where two values begin to differ, in words.
func differs(recorded, asked json.RawMessage) string {
	a, b := exact(recorded), exact(asked)
	if a == nil || b == nil {
		return "one of them is no JSON"
	}
	return where("", a, b)
}

// exact is a value whose numbers are as they were written; nil is none.
func exact(raw json.RawMessage) (v any) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil
	}
	return v
}

func where(at string, a, b any) string {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		var names []string
		for k := range x {
			names = append(names, k)
		}
		for k := range y {
			if _, ok := x[k]; !ok {
				names = append(names, k)
			}
		}
		slices.Sort(names)
		for _, k := range names {
			if s := where(strings.TrimPrefix(at+"."+k, "."), x[k], y[k]); s != "" {
				return s
			}
		}
		return ""
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		for i := range min(len(x), len(y)) {
			if s := where(fmt.Sprintf("%s[%d]", at, i), x[i], y[i]); s != "" {
				return s
			}
		}
		if len(x) != len(y) {
			return fmt.Sprintf("%s: recorded with %d, asked with %d", at, len(x), len(y))
		}
		return ""
	default:
		if a == b {
			return ""
		}
	}
	return fmt.Sprintf("%s: recorded as %s, asked as %s", at, short(a), short(b))
}

// short is a value as text of a length that people read; of a long one the beginning.
func short(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	const most = 120
	if len(raw) > most {
		return strings.ToValidUTF8(string(raw[:most]), "") + "…"
	}
	return string(raw)
}
