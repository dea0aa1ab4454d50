package plugins

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// secretWord is the end of a name that says that its value is a secret.
type secretWord struct {
	kind string
	// forms are its spellings in small letters.
	forms []string
	// least is the length of the shortest value that counts.
	least int
	// not are values that are none.
	not []string
	// line is true when the secret goes on to the end of the line.
	line bool
}

func word(kind string, least int, parts ...string) secretWord {
	w := secretWord{kind: kind, least: least, forms: []string{strings.Join(parts, "")}}
	if len(parts) > 1 {
		for _, sep := range []string{"_", "-", ".", " "} {
			w.forms = append(w.forms, strings.Join(parts, sep))
		}
	}
	return w
}

// secretWords are in order of what they tell: of two that end a name, the first names the secret.
var secretWords = func() []secretWord {
	words := []secretWord{
		word(kindPassword, 1, "password"), word(kindPassword, 1, "passwords"), word(kindPassword, 1, "passwd"), word(kindPassword, 1, "passphrase"),
		word(kindPassword, 1, "passcode"), word(kindPassword, 1, "pwd"), passWord,
		{kind: kindAuthorization, forms: []string{"authorization"}, least: 1, line: true},
		{kind: kindCookie, forms: []string{"cookie", "cookies"}, least: 4, line: true},
		word(kindToken, 6, "token"),
		word(kindSecret, 3, "secret"), word(kindSecret, 3, "secrets"), word(kindSecret, 3, "secret", "string"), word(kindSecret, 3, "secret", "value"),
		word(kindSecret, 8, "secret", "key", "base"),
	}
	for _, first := range []string{"api", "access", "secret", "private", "account", "auth", "encryption", "signing", "master", "shared", "storage", "subscription"} {
		words = append(words, word(kindAPIKey, 4, first, "key"))
	}
	return append(words, word(kindAPIKey, 4, "api", "keys"))
}()

// harmless are words before "token" that make it a place in a list, or a unit of text.
var harmless = []string{"page", "next", "nextpage", "continuation", "continue", "cancel", "cancellation", "sync", "cursor", "pagination", "eos", "bos",
	"pad", "unk", "max", "stop", "start", "end", "unexpected", "idempotency"}

// stems are what every secret name contains.
var stems = []string{"pass", "pwd", "authorization", "cookie", "token", "secret", "key"}

// otherPasses are words that end in "pass" and mean no password.
var otherPasses = []string{"bypass", "compass", "encompass", "overpass", "surpass", "trespass", "underpass"}

var passWord = word(kindPassword, 1, "pass")

// assignments finds values behind names: `password=x`, `"api_key": "x"`, `Authorization: Bearer x`, `--token x`.
func (r *Redactor) assignments(text string, spans []span) []span {
	if !r.naive && !strings.ContainsAny(text, "=:>\"'`") && !strings.Contains(text, "--") {
		return spans
	}
	lower := asciiLower(text)
	for _, stem := range stems {
		for at := 0; ; {
			n := strings.Index(lower[at:], stem)
			if n < 0 {
				break
			}
			var s span
			s, at = r.assignment(text, at+n, at+n+len(stem))
			if s.to > 0 {
				spans = append(spans, s)
			}
		}
	}
	return spans
}

// assignment looks at the name around text[start:end]. It returns the secret behind it, if there is one, and where the search
// goes on: all but the end of what was looked at is not looked at again, so that the time stays linear.
func (r *Redactor) assignment(text string, start, end int) (span, int) {
	first := nameStart(text, start)
	last := end
	for last < len(text) && last-end < mostName && isWord(text[last]) {
		last++
	}
	name := text[first:last]
	w, is := secretName(name)
	if !is && strings.EqualFold(name, "pass") && last < len(text) && text[last] == '=' {
		// Too common a word for anything else.
		w, is = passWord, true
	}
	if !is || r.without[w.kind] {
		return span{}, end
	}
	from, cli := w.assigned(text, last, first > 1 && text[first-2:first] == "--" || strings.HasPrefix(name, "--"))
	if from < 0 {
		return span{}, end
	}
	if cli && from < len(text) && text[from] == '-' {
		return span{}, max(end, from) // before its end is looked for: another flag may begin there
	}
	if from < len(text) && w.isDirectory(text[from:from+1]) {
		return span{}, max(end, from) // before its end is looked for: it may be far, and another name be in it
	}
	if isTemplate(text, from) {
		return span{}, max(end, from) // its blanks would end it
	}
	from, to := extent(text, first, last, from, w.line)
	if !w.secret(text[from:to]) || cli && text[from] == '-' {
		return span{}, max(end, from)
	}
	rank := len(r.patterns)
	if w.line {
		// It says more than the form of what stands there.
		rank = -1
	}
	// What ends the value may be the name of the next one.
	return span{from, to, w.kind, rank}, max(end, to-mostName)
}

// mostName bounds how far a name is read backwards.
const mostName = 64

func nameStart(text string, at int) int {
	from := at
	for from > 0 && at-from < mostName {
		c := text[from-1]
		// "api key" is one name, of at most two words, and "next token" is no secret.
		blank := c == ' ' && from == at && from > 1 && isWord(text[from-2]) && strings.IndexByte("kKtT", text[at]) >= 0
		if !isWord(c) && c != '-' && c != '.' && !blank {
			break
		}
		from--
	}
	return from
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// isPlain reports whether a name that ends in w does not mean a secret after all.
func (w secretWord) isPlain(name string) bool {
	parts := nameParts(name)
	last := len(parts) - 1
	switch {
	case last < 0:
		return false
	case w.forms[0] == "pass":
		return last == 0 && parts[0] == "pass" || slices.Contains(otherPasses, parts[last])
	case w.kind == kindToken && last > 0:
		return slices.Contains(harmless, parts[last-1])
	}
	return false
}

// nameParts splits a name at separators and where capitals begin, into small letters.
func nameParts(name string) []string {
	var parts []string
	var part strings.Builder
	end := func() {
		if part.Len() > 0 {
			parts = append(parts, part.String())
			part.Reset()
		}
	}
	small := false
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			end()
			small = false
			continue
		}
		if unicode.IsUpper(c) && small {
			end()
		}
		small = unicode.IsLower(c) || unicode.IsDigit(c)
		part.WriteRune(unicode.ToLower(c))
	}
	end()
	return parts
}

// operators stand between a name and its value; those with quoted only before a text in quotes, because what else stands there is
// a grammar or a comparison.
var operators = []struct {
	sign   string
	quoted bool
}{{sign: "=>"}, {sign: ":="}, {"::=", true}, {"===", true}, {sign: "=="}, {"!==", true}, {"!=", true}, {"<-", true}, {sign: "+="}, {sign: ".="},
	{sign: "?="}, {sign: "||="}, {sign: "??="}, {sign: "|="}, {sign: "&&="}, {sign: "="}, {sign: ":"}}

// assigned returns where the value of a name begins that ends at at, or -1. cli says that only a blank separates them.
func (w secretWord) assigned(text string, at int, flag bool) (from int, cli bool) {
	for at < len(text) && (text[at] >= '0' && text[at] <= '9' || text[at] == '_') {
		at++
	}
	at = skipColor(text, at)
	named := at
	for at < len(text) && strings.IndexByte("\\\"'`]*", text[at]) >= 0 {
		at++ // also the stars of Markdown
	}
	if at < len(text) && text[at] == '>' && at == named {
		return len(text) - len(strings.TrimLeft(text[at+1:], " \t\r\n")), false
	}
	blank := skipBlank(text, at)
	for _, op := range operators {
		if !strings.HasPrefix(text[blank:], op.sign) {
			continue
		}
		at = skipColor(text, skipBlank(text, blank+len(op.sign)))
		if op.quoted && (at >= len(text) || strings.IndexByte("\"'`", text[at]) < 0) {
			return -1, false
		}
		return afterOperator(text, at), false
	}
	if at > named && blank > at && strings.HasPrefix(text[blank:], "value=") {
		return blank + len("value="), false // <add key="Password" value="x"/>
	}
	if next := pairedValue(text, blank); next > 0 {
		return next, false
	}
	switch {
	case blank == at:
		return -1, false
	case flag:
		return blank, true
	case at == named && w.least <= 4 && w.kind != kindSecret && (text[blank:] != "" && strings.IndexByte("\"'`", text[blank]) >= 0):
		// #define PASSWORD "x"
		return blank, false
	}
	return -1, false
}

// skipColor passes over escape sequences of a terminal, such as those with which grep shows what it found.
func skipColor(text string, at int) int {
	for strings.HasPrefix(text[at:], "\x1b[") {
		for at += 2; at < len(text) && (text[at] < '@' || text[at] > '~'); at++ {
		}
		at = min(at+1, len(text))
	}
	return at
}

func skipBlank(text string, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t') {
		at++
	}
	return at
}

// value returns the extent of the value that begins at from, without its quotes. params is lineEnd's.
func value(text string, from int, line, params bool) (int, int) {
	at := from
	for at < len(text) && text[at] == '\\' {
		at++
	}
	if at < len(text) && strings.IndexByte("\"'`", text[at]) >= 0 {
		quotes := 1
		for at+quotes < len(text) && text[at+quotes] == text[at] {
			quotes++
		}
		if quotes < 3 {
			quotes = 1 // two are an empty value, more are how some languages begin a long one
		}
		from, quotes = at-from, at+quotes // how far the quote is escaped, and where the value begins
		if long := text[at:quotes]; len(long) >= 3 && text[at] != '`' {
			if n := strings.Index(text[quotes:], long[:3]); n >= 0 {
				return quotes, quotes + n
			}
		}
		return quotes, closing(text, quotes, text[at], from)
	}
	if line {
		return from, lineEnd(text, from, params)
	}
	if to := listEnd(text, from); to > 0 {
		return from + 1, to
	}
	to := bareEnd(text, from)
	// A tag or an anchor of YAML, and what it stands before.
	for n := 0; n < 2 && to < len(text) && text[to] == ' ' && strings.IndexByte("!&", text[at]) >= 0; n++ {
		at = skipBlank(text, to)
		if at == len(text) || strings.IndexByte("#\r\n", text[at]) >= 0 {
			break
		}
		if strings.IndexByte("\"'", text[at]) >= 0 {
			return from, closing(text, at+1, text[at], 0)
		}
		to = bareEnd(text, at)
	}
	return from, to
}

// bareEnd returns the end of a value without quotes.
func bareEnd(text string, from int) int {
	at := from
	for ; at < len(text); at++ {
		c := text[at]
		if strings.IndexByte(" \t\r\n\v\f", c) >= 0 {
			break
		}
		if strings.IndexByte("\"'`", c) >= 0 && ends(text, at+1) {
			break
		}
		if c == '\\' && at+1 < len(text) && strings.IndexByte("nrt\"'\\", text[at+1]) >= 0 {
			break
		}
		if strings.IndexByte("&;,", c) >= 0 && (ends(text, at+1) || pairs(text, at+1)) {
			break
		}
		if c == '<' && at+1 < len(text) && text[at+1] == '/' {
			break
		}
	}
	// What encloses the value is not a part of it, but a few bytes at most.
	for n := 0; n < 8 && at > from && strings.IndexByte(")}],.;", text[at-1]) >= 0; n++ {
		if v := text[from:at]; len(v) < mostName && (marked.MatchString(v) || placeholder.MatchString(v) || calling.MatchString(v)) {
			break
		}
		at--
	}
	return at
}

// ends reports whether a value cannot go on at at.
func ends(text string, at int) bool {
	return at >= len(text) || strings.IndexByte(" \t\r\n,;:}])\"'\\", text[at]) >= 0
}

// pairs reports whether another name and its value begin at at.
func pairs(text string, at int) bool {
	from := at
	for at < len(text) && at-from < mostName && (isWord(text[at]) || strings.IndexByte("-.[]", text[at]) >= 0) {
		at++
	}
	return at > from && at < len(text) && (text[at] == '=' || text[at] == ':')
}

var (
	// placeholder matches values that stand for a secret: variables, templates, stars, `<your key>`.
	placeholder = regexp.MustCompile(`\A(?:\$[A-Z_][A-Z0-9_]*|\$?\{\{?[ A-Za-z0-9_.:-]*\}?\}|\$\([A-Za-z_ ./-]*\)|%[svqd+]+|\*+|x{3,}|X{3,}|\.{3,}|…|<[A-Za-z _-]*>)\z`)
	// template matches what Helm, GitHub Actions and others put a secret into.
	template = regexp.MustCompile(`\A["'` + "`" + `]?\$?\{\{[-+]?[ A-Za-z0-9_.:|$-]*\}\}`)
	// calling matches code that gets a secret from somewhere.
	calling = regexp.MustCompile(`\A(?:[A-Za-z_][A-Za-z0-9_.]*\(\)|(?i:os\.getenv|os\.environ|getenv|system\.getenv|process\.env|std::env|env\[).*)\z`)
	// member matches a path into a structure, such as cfg.Password.
	member = regexp.MustCompile(`\A[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\.([A-Za-z_][A-Za-z0-9_]*)\z`)
)

func isTemplate(text string, from int) bool {
	m := template.FindStringIndex(text[from:min(from+2*mostName, len(text))])
	return m != nil && ends(text, from+m[1])
}

// types are values that say what a secret would be, and those that say that there is none.
var types = map[string]bool{"true": true, "false": true, "null": true, "nil": true, "none": true, "undefined": true, "string": true, "str": true,
	"bool": true, "boolean": true, "int": true, "integer": true, "number": true, "bytes": true, "object": true, "any": true}

// secret reports whether a value behind such a name is one.
func (w secretWord) secret(v string) bool {
	v = strings.Trim(v, " \t\r\n")
	if len(v) < w.least || len(v) < 64 && (types[strings.ToLower(v)] || placeholder.MatchString(v) || marked.MatchString(v)) {
		return false
	}
	if slices.Contains(w.not, asciiLower(v)) {
		return false
	}
	if len(v) < mostQuoted && w.isDirectory(v) {
		return false
	}
	if len(v) < 256 && calling.MatchString(v) {
		return false
	}
	if m := member.FindStringSubmatch(v); len(v) < 256 && m != nil {
		if _, is := secretName(m[1]); is {
			return false
		}
	}
	return true
}

// isDirectory reports whether a value that begins so is the working directory, which goes by the name of a password.
func (w secretWord) isDirectory(v string) bool {
	return w.forms[0] == "pwd" && strings.ContainsAny(v[:1], "/~.")
}

// secretName reports whether the value under a name is a secret.
func secretName(name string) (secretWord, bool) {
	if len(name) > 4*mostName {
		name = name[len(name)-4*mostName:]
	}
	bare := strings.TrimRight(name, "0123456789_")
	lower := asciiLower(bare)
	for _, w := range secretWords {
		for _, form := range w.forms {
			if strings.HasSuffix(lower, form) && !w.isPlain(bare) {
				return w, true
			}
		}
	}
	return secretWord{}, false
}

// passed are values under the key "pass" that tell how a check ended.
var passed = []string{"yes", "no", "ok", "pass", "passed", "fail", "failed", "skip", "skipped"}

// keyName is secretName for the key of an object, which has no words around it that could make it something else.
func keyName(key string) (secretWord, bool) {
	key = strings.Trim(key, " \t:*")
	switch asciiLower(key) {
	case "pass":
		w := passWord
		w.not = passed
		return w, true
	case "auth", "_auth":
		return secretWord{kind: kindAuthorization, forms: []string{"auth"}, least: 8}, true
	}
	return secretName(key)
}

// asciiLower is strings.ToLower that keeps every byte in its place.
func asciiLower(s string) string {
	b := []byte(s)
	for n, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[n] = c + 'a' - 'A'
		}
	}
	return string(b)
}
