package plugins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// mostNested is how many times JSON in a string in JSON is read as such.
const mostNested = 8

// mostOpen is for how many strings a key block that did not end is looked for.
const mostOpen = 1000

var errNotJSON = errors.New("the value is not JSON")

// JSON returns raw without its secrets: in strings at any depth, and in keys if the config says so. Everything else stays as
// it is, byte for byte. A string under a key that names a secret, such as "password", is one as a whole; so is the "value"
// beside such a "name". What is not JSON is an error that does not quote it.
func (r *Redactor) JSON(raw json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(raw) {
		return nil, errNotJSON
	}
	out, changed := r.document(raw, r.keys, mostNested)
	if changed && !json.Valid(out) {
		return nil, errNotJSON
	}
	return out, nil
}

func looksLikeJSON(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n")
	return text != "" && (text[0] == '{' || text[0] == '[' || text[0] == '"')
}

// nested redacts text that is JSON; false says that it is not.
func (r *Redactor) nested(text string, depth int) (string, bool) {
	raw := []byte(text)
	if !json.Valid(raw) {
		return "", false
	}
	out, changed := r.document(raw, true, depth-1)
	if !changed {
		return text, true
	}
	return string(out), true
}

// lines redacts text of which every line is an object or a list; false says that it is not. A key block may go on from one
// line to the next, so text with one is searched as text.
func (r *Redactor) lines(text string, depth int) (string, bool) {
	if strings.Contains(text, "PRIVATE KEY") {
		return "", false
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && (line[0] != '{' && line[0] != '[' || !json.Valid([]byte(line))) {
			return "", false
		}
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if out, ok := r.nested(line, depth); ok {
			line = out
		}
		b.WriteString(line)
	}
	return b.String(), true
}

func (r *Redactor) document(raw []byte, keys bool, depth int) ([]byte, bool) {
	w := &walker{r: r, raw: raw, keys: keys, depth: depth}
	w.walk()
	if !w.changed {
		return raw, false
	}
	var b bytes.Buffer
	at := 0
	for _, e := range w.edits {
		if e.keeps {
			continue
		}
		b.Write(raw[at:e.from])
		b.Write(quoted(e.text))
		at = e.to
	}
	b.Write(raw[at:])
	return b.Bytes(), true
}

func quoted(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// A string can always be encoded.
	_ = enc.Encode(s)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// edit replaces raw[from:to], a string with its quotes. One that keeps it is there to be changed later.
type edit struct {
	from, to int
	text     string
	keeps    bool
}

// frame is an object or a list that is being read.
type frame struct {
	object, atKey bool
	// name is the secret word that the present key ends in, or that of the list; nil if it does not name a secret.
	name *secretWord
	// outer is that of the key under which an object stands, for its member "value".
	outer *secretWord
	// before is what the string of a list that was read last says of the next one: `["--password", "x"]`.
	before *secretWord
	count  int
	// Members of a pair like {"name": "PASSWORD", "value": "x"}.
	pairName  *secretWord
	isName    bool
	isValue   bool
	pairValue []pairValue
	// pair is the index of the object whose "value" all this is a part of, or -1.
	pair int
	keys map[string]int
}

// pairValue is a string of a pair and the index of its edit.
type pairValue struct {
	text string
	edit int
}

// walker reads valid JSON once, without recursion.
type walker struct {
	r     *Redactor
	raw   []byte
	keys  bool
	depth int
	stack []frame
	// edits are in order; changed says that one of them changes something.
	edits   []edit
	changed bool
	// open counts down the strings among which a key block that did not end may go on.
	open int
}

func (w *walker) walk() {
	for at := 0; at < len(w.raw); at++ {
		switch w.raw[at] {
		case '{', '[':
			w.push(w.raw[at] == '{')
		case '}', ']':
			w.pop()
		case ',':
			if f := w.top(); f != nil {
				f.atKey = f.object
				f.count++
			}
		case '"':
			end := stringEnd(w.raw, at)
			if f := w.top(); f != nil && f.atKey {
				w.key(f, at, end)
			} else {
				w.value(f, at, end)
			}
			at = end - 1
		}
	}
}

func (w *walker) top() *frame {
	if len(w.stack) == 0 {
		return nil
	}
	return &w.stack[len(w.stack)-1]
}

func (w *walker) push(object bool) {
	f := frame{object: object, atKey: object, pair: -1}
	if up := w.top(); up != nil {
		if f.pair = up.pair; up.object && up.isValue {
			f.pair = len(w.stack) - 1
		}
		if object {
			f.outer = up.name
		} else {
			f.name = up.name
		}
	}
	w.stack = append(w.stack, f)
}

// pop ends an object or a list. Only now it is known whether a value stood beside the name of a secret.
func (w *walker) pop() {
	f := w.top()
	for _, v := range f.pairValue {
		if f.pairName != nil && f.pairName.secret(v.text) {
			e := &w.edits[v.edit]
			e.text, e.keeps, w.changed = mark(f.pairName.kind), false, true
		}
	}
	w.stack = w.stack[:len(w.stack)-1]
}

// stringEnd returns the index after the closing quote of the string that begins at from.
func stringEnd(raw []byte, from int) int {
	for at := from + 1; at < len(raw); at++ {
		switch raw[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(raw)
}

func unquoted(raw []byte) string {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(inner)
	}
	return s
}

func (w *walker) key(f *frame, from, to int) {
	text := unquoted(w.raw[from:to])
	f.atKey, f.name = false, nil
	lower := asciiLower(text)
	f.isName = lower == "name" || lower == "key" || lower == "field" || lower == "header" || lower == "variable" || lower == "parameter"
	f.isValue = lower == "value" || lower == "values" || lower == "val" || lower == "plaintext" || lower == "raw"
	if word, is := keyName(text); is && !w.r.without[word.kind] {
		f.name = &word
	} else if f.isValue {
		f.name = f.outer
	}
	if !w.keys {
		return
	}
	if out, changed, _ := w.r.text(text, 0); changed {
		if f.keys == nil {
			f.keys = map[string]int{}
		}
		// Two secrets must not become one key.
		if f.keys[out]++; f.keys[out] > 1 {
			out = fmt.Sprintf("%s-%d", out, f.keys[out])
		}
		w.edits, w.changed = append(w.edits, edit{from: from, to: to, text: out}), true
	}
}

func (w *walker) value(f *frame, from, to int) {
	text := unquoted(w.raw[from:to])
	var name *secretWord
	paired := false
	if f != nil {
		name = f.name
		if f.isValue && f.object {
			f.pairValue, paired = append(f.pairValue, pairValue{text, len(w.edits)}), true
		}
		if f.pair >= 0 {
			up := &w.stack[f.pair]
			up.pairValue, paired = append(up.pairValue, pairValue{text, len(w.edits)}), true
		}
		if f.isName && f.object {
			if word, is := secretName(text); is && !w.r.without[word.kind] {
				f.pairName = &word
			}
		}
	}
	if f != nil && !f.object {
		name = w.inList(f, text)
	}
	out, changed, open := w.r.text(text, w.depth)
	switch {
	case name != nil && name.secret(text) && !marked.MatchString(out):
		out, changed = mark(name.kind), true
	case w.open > 0 && !changed:
		w.open--
		out, changed = keyLine(text)
	case w.open > 0 && strings.Contains(text, "PRIVATE KEY"):
		w.open = 0
	}
	if open {
		w.open = mostOpen
	}
	w.changed = w.changed || changed
	if changed || paired {
		w.edits = append(w.edits, edit{from: from, to: to, text: out, keeps: !changed})
	}
}

// inList returns what a string of a list is, after what came before it: the value of a flag, or of a header.
func (w *walker) inList(f *frame, text string) *secretWord {
	name := f.name
	if name == nil {
		name = f.before
	}
	f.before = nil
	word, is := secretName(text)
	header := f.count == 0 && (word.kind == kindAuthorization || word.kind == kindCookie)
	if is && !w.r.without[word.kind] && (header || strings.HasPrefix(text, "--")) {
		f.before = &word
	}
	return name
}

// keyLine redacts a string that looks like a line of a key block whose first line was another string.
func keyLine(text string) (string, bool) {
	// Before it may stand its number, or the sign of a diff.
	body := strings.TrimLeft(strings.Trim(text, " \t\r\n"), "0123456789 \t:|>-")
	if len(body) < 16 && !strings.HasSuffix(body, "=") || body == "" {
		return text, false
	}
	for n := range len(body) {
		if c := body[n]; !isWord(c) && c != '+' && c != '/' && c != '=' && c != '\n' && c != '\r' || c >= 0x80 {
			return text, false
		}
	}
	return mark(kindPrivateKey), true
}
