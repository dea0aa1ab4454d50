package plugins

import (
	"regexp"
	"strings"
	"sync"
)

// The kinds that are more than a pattern.
const (
	kindPrivateKey    = "private-key"
	kindPassword      = "password"
	kindSecret        = "secret"
	kindAPIKey        = "api-key"
	kindToken         = "token"
	kindAuthorization = "authorization"
	kindCookie        = "cookie"
)

// shippedPatterns have keywords that every match contains. Where a vendor's tokens have a fixed length the least is asked
// for, so that one in a longer word is still found.
var shippedPatterns = []Pattern{
	{Kind: "aws-key", Expr: `(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16,}`, Keywords: []string{"A3T", "AKIA", "ASIA", "ABIA", "ACCA"}},
	{Kind: "github-token", Expr: `gh[pousr]_[A-Za-z0-9]{20,}`, Keywords: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}},
	{Kind: "github-token", Expr: `github_pat_[A-Za-z0-9_]{20,}`, Keywords: []string{"github_pat_"}},
	{Kind: "gitlab-token", Expr: `(?:gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-|GR1348941)[A-Za-z0-9_.-]{16,}`,
		Keywords: []string{"glpat-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-", "glffct-", "glwt-", "GR1348941"}},
	{Kind: "slack-token", Expr: `(?:xox[a-z](?:\.xox[a-z])?|xapp|xwfp)-[A-Za-z0-9-]{8,}`, Keywords: []string{"xox", "xapp-", "xwfp-"}},
	{Kind: "slack-webhook", Expr: `hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9_/+-]{8,})`, Keywords: []string{"hooks.slack"}},
	{Kind: "stripe-key", Expr: `(?:[sr]k_(?:live|test|prod)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9+/=_-]{16,})`, Keywords: []string{"k_live_", "k_test_", "k_prod_", "whsec_"}},
	{Kind: "anthropic-key", Expr: `sk-ant-[A-Za-z0-9_-]{8,}`, Keywords: []string{"sk-ant-"}},
	{Kind: "openai-key", Expr: `(?:^|[^A-Za-z0-9])(sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{8,})`, Keywords: []string{"sk-"}},
	{Kind: "openai-key", Expr: `(?:^|[^A-Za-z0-9])(sk-[A-Za-z0-9_-]{16,})`, Keywords: []string{"sk-"}, Check: random},
	{Kind: "openai-key", Expr: `sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}`, Keywords: []string{"sk-"}, Check: random},
	{Kind: "openai-key", Expr: `sk-[A-Za-z0-9]{40,}|sess-[A-Za-z0-9]{32,}`, Keywords: []string{"sk-", "sess-"}},
	{Kind: "google-key", Expr: `AIza[A-Za-z0-9_-]{30,}`, Keywords: []string{"AIza"}},
	{Kind: "google-token", Expr: `ya29\.[A-Za-z0-9_.-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,}|1//0[A-Za-z0-9_-]{24,}`, Keywords: []string{"ya29.", "GOCSPX-", "1//0"}},
	{Kind: "jwt", Expr: `eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,3}`, Keywords: []string{"eyJ"}},
	{Kind: "npm-token", Expr: `npm_[A-Za-z0-9]{30,}`, Keywords: []string{"npm_"}},
	{Kind: "pypi-token", Expr: `pypi-[A-Za-z0-9_-]{40,}`, Keywords: []string{"pypi-"}},
	{Kind: "sendgrid-key", Expr: `SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`, Keywords: []string{"SG."}},
	{Kind: "twilio-key", Expr: `SK[0-9a-f]{32,}`, Keywords: []string{"SK"}},
	{Kind: "huggingface-token", Expr: `hf_[A-Za-z0-9]{30,}`, Keywords: []string{"hf_"}},
	{Kind: "digitalocean-token", Expr: `do[opr]_v1_[0-9a-f]{40,}`, Keywords: []string{"_v1_"}},
	{Kind: "databricks-token", Expr: `dapi[0-9a-f]{32,}`, Keywords: []string{"dapi"}},
	{Kind: "vault-token", Expr: `hv[sbr]\.[A-Za-z0-9_-]{20,}`, Keywords: []string{"hvs.", "hvb.", "hvr."}},
	{Kind: "age-key", Expr: `AGE-SECRET-KEY-1[0-9A-Z]{40,}`, Keywords: []string{"AGE-SECRET-KEY-1"}},
	{Kind: "azure-signature", Expr: `[?&]sig=([A-Za-z0-9%+/=_-]{20,})`, Keywords: []string{"sig="}},
	{Kind: "aws-signature", Expr: `[?&][Xx]-[Aa]mz-(?i:signature|security-token|credential)=([A-Za-z0-9%+/=_.-]{8,})`, Keywords: []string{"-Amz-", "-amz-"}},
	// The password may hold an @ of its own; the last one before the path ends it.
	{Kind: "url-password", Expr: `[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"'<>]*:([^\s/"'<>]+)@`, Keywords: []string{"://"}, Check: notVariable},
	{Kind: "url-password", Expr: `[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"'<>\[]*:([^\s"'<>@]+)@`, Keywords: []string{"://"}, Check: notPort},
	{Kind: "url-password", Expr: `[A-Za-z][A-Za-z0-9+.-]*://([^\s/:@"'<>]{16,})@`, Keywords: []string{"://"}, Check: random},
	{Kind: kindPassword, Expr: `login\s+\S+\s+password\s+(\S+)`, Keywords: []string{"login"}, Check: notVariable},
	{Kind: "bearer-token", Expr: `\b(?:[Bb]earer|BEARER)[\s:]+([A-Za-z0-9_.~+/-]{12,}=*)`, Keywords: []string{"earer", "EARER"}, Check: random},
	{Kind: "basic-auth", Expr: `\b(?:[Bb]asic|BASIC)\s+([A-Za-z0-9+/]{8,}={0,2})`, Keywords: []string{"asic", "ASIC"}, Check: random},
}

var shipped = sync.OnceValue(func() []compiled {
	out := make([]compiled, len(shippedPatterns))
	for n, p := range shippedPatterns {
		out[n] = compiled{kind: p.Kind, keywords: p.Keywords, expr: regexp.MustCompile(p.Expr), check: p.Check}
		out[n].group = min(out[n].expr.NumSubexp(), 1)
	}
	return out
})

// random tells a token from words in its form: it has a digit, or capitals in the middle of small letters.
func random(s string) bool {
	if strings.ContainsAny(s, "0123456789=") {
		return true
	}
	for n := 1; n < len(s); n++ {
		if 'A' <= s[n] && s[n] <= 'Z' && 'a' <= s[n-1] && s[n-1] <= 'z' {
			return true
		}
	}
	return false
}

func notVariable(s string) bool { return !placeholder.MatchString(s) && !marked.MatchString(s) }

// notPort tells a password with a slash in it from a port and a path with an @.
func notPort(s string) bool { return notVariable(s) && !portAndPath.MatchString(s) }

var portAndPath = regexp.MustCompile(`\A[0-9]{1,5}/`)

// longText is where texts of failures are cut, perhaps in the middle of a token that is too short then to have its form.
const longText = 16 << 10

var tokenStart = regexp.MustCompile(`(?:gh[pousr]_|github_pat_|gl[a-z]{2,5}-|xox[a-z]-|xapp-|[sr]k_(?:live|test)_|whsec_|sk-|AIza|ya29\.|GOCSPX-|eyJ|AKIA|ASIA|` +
	`npm_|pypi-|SG\.|hf_|do[opr]_v1_|dapi|hv[sbr]\.|AGE-SECRET-KEY-)[A-Za-z0-9_.+/=-]*(?:…)?\z`)

// cutURL matches a password in a URL that was cut before the @ that would show it to be one.
var cutURL = regexp.MustCompile(`://[^\s/:@"'<>]*:([^\s/@"'<>]+)…\z`)

// cutToken finds what may be the beginning of a token at the end of a long text.
func cutToken(text string, rank int, spans []span) []span {
	const tail = 256
	if len(text) < longText {
		return spans
	}
	if m := cutURL.FindStringSubmatchIndex(text[len(text)-tail:]); m != nil {
		spans = append(spans, span{len(text) - tail + m[2], len(text) - tail + m[3], kindToken, rank})
	}
	if m := tokenStart.FindStringIndex(text[len(text)-tail:]); m != nil {
		from := len(text) - tail + m[0]
		spans = append(spans, span{from, len(strings.TrimSuffix(text, "…")), kindToken, rank})
	}
	return spans
}

// pem matches the first and last lines of private keys; the group is the word that tells which.
var pem = regexp.MustCompile(`-{4,5} ?(BEGIN|END) [A-Za-z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}`)

// putty introduces the private half of a PuTTY key file.
var putty = regexp.MustCompile(`Private-Lines: ?[0-9]+`)

// headers matches the lines between the first one of a key block and its body, which hold what a body does not.
var headers = regexp.MustCompile(`\A(?:(?:\s*\n|(?:\\+[rn])+)[ \t]*[A-Za-z][A-Za-z-]{0,40}: [^\n\\]*)*`)

// privateKeys finds key blocks. open says that the text ends within one. A block without an end goes as far as it looks like a
// key, and so does one without a beginning, backwards.
func privateKeys(text string, spans []span) (_ []span, open bool) {
	if !strings.Contains(text, "PRIVATE KEY") && !strings.Contains(text, "Private-Lines") {
		return spans, false
	}
	begin, done := -1, 0
	end := func(from, to int) {
		spans = append(spans, span{from, to, kindPrivateKey, -1})
		done = to
	}
	for _, m := range pem.FindAllStringSubmatchIndex(text, -1) {
		isBegin := text[m[2]:m[3]] == "BEGIN"
		switch {
		case isBegin && begin < 0:
			begin = m[0]
		case isBegin:
			// The one before has no end of its own.
		case begin >= 0:
			end(begin, m[1])
			begin = -1
		default:
			end(bodyBefore(text, done, m[0]), m[1])
		}
	}
	if begin >= 0 {
		to := pem.FindStringIndex(text[begin:])[1] + begin
		to = bodyAfter(text, to+headers.FindStringIndex(text[to:])[1])
		end(begin, to)
		open = to == len(text)
	}
	done = 0
	for _, m := range putty.FindAllStringIndex(text, -1) {
		if m[0] >= done {
			end(m[0], bodyAfter(text, m[1]))
		}
	}
	return spans, open
}

// inBody tells bytes that a key block may hold: base64, headers, line breaks, also escaped or quoted ones.
var inBody = func() (table [256]bool) {
	for c := range 256 {
		table[c] = c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("+/=\\ \t\r\n:,-\"'|>#*", byte(c)) >= 0
	}
	return table
}()

func bodyAfter(text string, at int) int {
	for at < len(text) && inBody[text[at]] {
		at++
	}
	return at
}

// bodyBefore goes back over base64 and line breaks.
func bodyBefore(text string, least, at int) int {
	for at > least && inBody[text[at-1]] && strings.IndexByte(":,-|>#*\"'", text[at-1]) < 0 {
		at--
	}
	return at
}
