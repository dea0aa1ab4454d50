package plugins

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/assent-dev/assent/fault"
)

// Pattern finds one kind of secret in text.
type Pattern struct {
	// Kind names it in `[redacted:kind]`: 1 to 32 lower-case letters, digits and dashes.
	Kind string
	// Expr is a regular expression of package regexp. If it has a group, the first is the secret, else all of it is.
	Expr string
	// Keywords are texts of which a match contains at least one, exactly as written: text with none of them is not
	// searched, which is what makes searching cheap. Without keywords it always is.
	Keywords []string
	// Check confirms a match of Expr, if it is set. It is called by several goroutines at once.
	Check func(secret string) bool
}

// RedactConfig says what a secret is. The zero value finds all of Kinds.
type RedactConfig struct {
	// Patterns are looked for besides the shipped ones.
	Patterns []Pattern
	// Without lists shipped kinds that are left alone.
	Without []string
	// Keys replaces secrets in the keys of objects too. Keys that name a secret, such as "password", are never changed.
	Keys bool
}

// Redactor replaces secrets by `[redacted:kind]`. It is safe for concurrent use and its time is linear in the length of
// the text. It knows forms, not values: a secret that looks like nothing, or that is encoded once more, gets past it.
type Redactor struct {
	patterns []compiled
	without  map[string]bool
	keys     bool
	// naive searches without keywords; the benchmark compares the two.
	naive bool
}

type compiled struct {
	kind     string
	keywords []string
	expr     *regexp.Regexp
	group    int
	check    func(string) bool
}

var kindName = regexp.MustCompile(`\A[a-z0-9][a-z0-9-]{0,31}\z`)

// NewRedactor compiles the patterns, or returns a *fault.ConfigError.
func NewRedactor(config RedactConfig) (*Redactor, error) {
	r := &Redactor{without: map[string]bool{}, keys: config.Keys}
	kinds := Kinds()
	for _, kind := range config.Without {
		if !slices.Contains(kinds, kind) {
			return nil, &fault.ConfigError{Key: "redact.without", Msg: fmt.Sprintf("unknown kind %q", kind), Allowed: kinds}
		}
		r.without[kind] = true
	}
	for n, p := range config.Patterns {
		c, err := p.compile(fmt.Sprintf("redact.patterns[%d]", n))
		if err != nil {
			return nil, err
		}
		r.patterns = append(r.patterns, c)
	}
	for _, c := range shipped() {
		if !r.without[c.kind] {
			r.patterns = append(r.patterns, c)
		}
	}
	return r, nil
}

func (p Pattern) compile(key string) (compiled, error) {
	if !kindName.MatchString(p.Kind) {
		return compiled{}, fault.Configf(key+".kind", "%q does not match %s", p.Kind, kindName)
	}
	expr, err := regexp.Compile(p.Expr)
	switch {
	case err != nil:
		return compiled{}, &fault.ConfigError{Key: key + ".expr", Msg: "is not a regular expression", Cause: err}
	case expr.MatchString(""):
		return compiled{}, fault.Configf(key+".expr", "matches the empty text, so it would match everywhere")
	case slices.Contains(p.Keywords, ""):
		return compiled{}, fault.Configf(key+".keywords", "has an empty keyword, which every text contains; leave the list out instead")
	}
	return compiled{kind: p.Kind, keywords: slices.Clone(p.Keywords), expr: expr, group: min(expr.NumSubexp(), 1), check: p.Check}, nil
}

// Kinds lists the shipped kinds, sorted.
func Kinds() []string {
	kinds := []string{kindPrivateKey, kindPassword, kindSecret, kindAPIKey, kindToken, kindAuthorization, kindCookie}
	for _, c := range shipped() {
		kinds = append(kinds, c.kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// span is a secret in a text.
type span struct {
	from, to int
	kind     string
	// rank orders overlapping finds: the one with the lowest names the secret.
	rank int
}

// Text returns text without its secrets. Text that is JSON stays JSON.
func (r *Redactor) Text(text string) string {
	out, _, _ := r.text(text, mostNested)
	return out
}

// text redacts a string; open says that it ends within a private key.
func (r *Redactor) text(text string, depth int) (out string, changed, open bool) {
	if len(text) < shortest {
		return text, false, false
	}
	if depth > 0 && looksLikeJSON(text) {
		if out, ok := r.nested(text, depth); ok {
			return out, out != text, false
		}
		if out, ok := r.lines(text, depth); ok {
			return out, out != text, false
		}
	}
	spans, open := r.spans(text)
	if len(spans) == 0 {
		return text, false, open
	}
	var b strings.Builder
	at := 0
	for _, s := range spans {
		b.WriteString(text[at:s.from])
		b.WriteString(mark(s.kind))
		at = s.to
	}
	b.WriteString(text[at:])
	return b.String(), true, open
}

// shortest is the length of the shortest text with a secret in it: `pwd=x`.
const shortest = 5

func mark(kind string) string { return "[redacted:" + kind + "]" }

// marked matches what a redaction left.
var marked = regexp.MustCompile(`\A\[redacted:[a-z0-9-]{1,32}\]\z`)

// spans returns the secrets of a text in order, without overlaps.
func (r *Redactor) spans(text string) (spans []span, open bool) {
	if !r.without[kindPrivateKey] {
		spans, open = privateKeys(text, spans)
	}
	for n, p := range r.patterns {
		spans = p.find(text, n, r.naive, spans)
	}
	spans = r.assignments(text, spans)
	if !r.without[kindToken] {
		spans = cutToken(text, len(r.patterns)+1, spans)
	}
	return merged(spans), open
}

func (c compiled) find(text string, rank int, naive bool, spans []span) []span {
	if !naive && len(c.keywords) > 0 && !slices.ContainsFunc(c.keywords, func(k string) bool { return strings.Contains(text, k) }) {
		return spans
	}
	for _, m := range c.expr.FindAllStringSubmatchIndex(text, -1) {
		from, to := m[2*c.group], m[2*c.group+1]
		if from < 0 || from == to {
			from, to = m[0], m[1]
		}
		if c.check == nil || c.check(text[from:to]) {
			spans = append(spans, span{from, to, c.kind, rank})
		}
	}
	return spans
}

// merged sorts spans and joins those that overlap. The join has the most telling of their kinds.
func merged(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return a.rank - b.rank
	})
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.from < out[n-1].to {
			last := &out[n-1]
			last.to = max(last.to, s.to)
			if s.rank < last.rank {
				last.kind, last.rank = s.kind, s.rank
			}
			continue
		}
		out = append(out, s)
	}
	return out
}
