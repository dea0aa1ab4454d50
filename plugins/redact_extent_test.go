package plugins_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/plugins"
)

// A secret ends where its text does, and not at the first line or quote in it.
func TestSecretsOfMoreThanOneWord(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{})
	for in, want := range map[string]string{
		"password: |\n  one two\n\n  three\nnext: 1":                      "password: |\n  [redacted:password]\nnext: 1",
		"a:\n  token: >-\n    abc def\n     ghi\n  next: 1\n":             "a:\n  token: >-\n    [redacted:token]\n  next: 1\n",
		"password: |\n  ${DB}\nnext: 1":                                   "password: |\n  ${DB}\nnext: 1",
		"password = \"\"\"\nhunter2\nhunter3\n\"\"\"\nnext":               "password = \"\"\"[redacted:password]\"\"\"\nnext",
		"authorization: Digest username=\"bob\", response=\"6629\"\nX: y": "authorization: [redacted:authorization]\nX: y",
		"Set-Cookie: a=\"q\"; sid=xyz12345\nX: y":                         "Set-Cookie: [redacted:cookie]\nX: y",
		"Cookie: a='q'; sid=xyz12345":                                     "Cookie: [redacted:cookie]",
		`curl -H "Authorization: Basic YWI=" -H "X: y"`:                   `curl -H "Authorization: [redacted:authorization]" -H "X: y"`,
		`{"h":"the Authorization: Basic YWI=","n":12} and`:                `{"h":"the Authorization: [redacted:authorization]","n":12} and`,
	} {
		assert.Equal(t, want, r.Text(in), "%s", in)
		assert.Equal(t, want, r.Text(want), "again: %s", in)
	}
}

// A value may go on in the next line, stand below its name, be a list, or be added by an operator of its own.
func TestSecretsInOtherForms(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{})
	for in, want := range map[string]string{
		"password: \"one\n  two\"\nnext: 1":                                 "password: \"[redacted:password]\"\nnext: 1",
		"export TOKEN='abcdef\nghi'\nx='1'":                                 "export TOKEN='[redacted:token]'\nx='1'",
		"password: \"one\nsay \"hello\" to him":                             "password: \"[redacted:password]\" to him",
		"password: \"one\nnext: 1":                                          "password: \"[redacted:password]\nnext: 1",
		"password: 'it''s one'":                                             "password: '[redacted:password]'",
		"password='' user='x'":                                              "password='' user='x'",
		"password += \"hunter2\"":                                           "password += \"[redacted:password]\"",
		"PASSWORD+=hunter2":                                                 "PASSWORD+=[redacted:password]",
		"PASSWORD ?= hunter2":                                               "PASSWORD ?= [redacted:password]",
		"$password .= 'hunter2';":                                           "$password .= '[redacted:password]';",
		"a.password ||= 'hunter2'":                                          "a.password ||= '[redacted:password]'",
		"a.password ??= 'hunter2'":                                          "a.password ??= '[redacted:password]'",
		"password <- 'hunter2'":                                             "password <- '[redacted:password]'",
		"if password != \"hunter2\" {":                                      "if password != \"[redacted:password]\" {",
		"if (password === 'hunter2') {":                                     "if (password === '[redacted:password]') {",
		"password:\n  one\n  two\nnext: 1":                                  "password:\n  [redacted:password]\nnext: 1",
		"password:\r\n  one\r\nnext: 1":                                     "password:\r\n  [redacted:password]\r\nnext: 1",
		"a:\n  passwords:\n    - one\n    - two\n  next: 1":                 "a:\n  passwords:\n    [redacted:password]\n  next: 1",
		"passwords:\n- one\n- two\nnext: 1":                                 "passwords:\n[redacted:password]\nnext: 1",
		"password =\n    hunter2\n":                                         "password =\n    [redacted:password]\n",
		"password = \\\n  hunter2":                                          "password = \\\n  [redacted:password]",
		"env:\n- name: DB_PASSWORD\n  value: hunter2\n  kind: y\n- name: X": "env:\n- name: DB_PASSWORD\n  value: [redacted:password]\n  kind: y\n- name: X",
		"- name: \"DB_PASSWORD\"\r\n  value: 'hunter2'":                     "- name: \"DB_PASSWORD\"\r\n  value: '[redacted:password]'",
		"password = [\"one\", \"two\"]; x":                                  "password = [[redacted:password]]; x",
		"passwords: [one, [two, three]]\nnext: 1":                           "passwords: [[redacted:password]]\nnext: 1",
		"passwords = ('one', 'two)', \"three\")":                            "passwords = ([redacted:password])",
		"<password>\n  hunter2\n</password>":                                "<password>\n  [redacted:password]\n</password>",
	} {
		assert.Equal(t, want, r.Text(in), "%s", in)
		assert.Equal(t, want, r.Text(want), "again: %s", in)
	}
	for _, harmless := range []string{
		"password:\n  minLength: 8\n  type: string\n", "Enter your password:\n\nLogin failed", "Password:\nLast login: today", "token ::= word | number",
		"if token != EOF {", "tokens <- next", "token -> rule", "password\nvalue:\n", "password = []", "password = ()",
	} {
		assert.Equal(t, harmless, r.Text(harmless))
	}
}

func TestLinesOfJSON(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{})
	for in, want := range map[string]string{
		"{\"name\":\"DB_PASSWORD\",\"value\":\"hunter2\"}\n\n{\"n\":1.0}\n": "{\"name\":\"DB_PASSWORD\",\"value\":\"[redacted:password]\"}\n\n{\"n\":1.0}\n",
		"{\"passwords\":[\"a1\",\"b2\"]}\r\n[1]":                            "{\"passwords\":[\"[redacted:password]\",\"[redacted:password]\"]}\r\n[1]",
		"{\"pass\\u0077ord\":\"hunter2\"}\n{}":                              "{\"pass\\u0077ord\":\"[redacted:password]\"}\n{}",
		" { \"a\" : 1 } \n{}\n":                                             " { \"a\" : 1 } \n{}\n",
	} {
		assert.Equal(t, want, r.Text(in), "%s", in)
		raw, err := json.Marshal(map[string]string{"stdout": in})
		require.NoError(t, err)
		raw, err = r.JSON(raw)
		require.NoError(t, err)
		var out map[string]string
		require.NoError(t, json.Unmarshal(raw, &out))
		assert.Equal(t, want, out["stdout"])
	}
	lines := "{\"t\":\"-----BEGIN " + "PRIVATE KEY-----\"}\n{\"t\":\"MIIEpAIBAAKCAQEA\"}\n{\"t\":\"-----END " + "PRIVATE KEY-----\"}"
	assert.NotContains(t, r.Text(lines), "MIIE")
}

func TestKeyBlocksBesideOthersAndWithHeaders(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{})
	const body = "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn"
	whole := "-----BEGIN " + "PRIVATE KEY-----\nQQ==\n-----END " + "PRIVATE KEY-----"
	const mark = "[redacted:private-key]"
	for in, want := range map[string]string{
		"Private-Lines: 1\n" + body + "\n(end)" + whole:                                                               mark + "(end)" + mark,
		"-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\nVersion: GnuPG v2.0 (GNU/Linux)\nComment: a@b\n\n" + body + "\n": mark,
		`-----BEGIN PGP ` + `PRIVATE KEY BLOCK-----\nVersion: GnuPG v2.0 (GNU/Linux)\n\n` + body + `\n`:               mark,
		"---- BEGIN SSH2 ENCRYPTED " + "PRIVATE KEY ----\r\nComment: \"bob@host.example\"\r\n" + body + "\n":          mark,
		"(-----BEGIN " + "PRIVATE KEY-----) is how one begins: see (there)":                                           "(" + mark + ") is how one begins: see (there)",
	} {
		assert.Equal(t, want, r.Text(in), "%s", in)
	}
}

// The lines of a key in a list may be numbered, or be those of a diff.
func TestKeyLinesThatAreNumbered(t *testing.T) {
	const body = "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MaFr+q1zWm8KpVuX"
	in, err := json.Marshal([]string{"1: -----BEGIN " + "PRIVATE KEY-----", "   2\t" + body, "2:" + body, "12 | " + body, "-" + body, "+" + body, "> " + body, "9\tQQ==", "2 words"})
	require.NoError(t, err)
	out, err := redactor(t, plugins.RedactConfig{}).JSON(in)
	require.NoError(t, err)
	assert.NotContains(t, string(out), "MIIE")
	assert.NotContains(t, string(out), "QQ==")
	assert.Contains(t, string(out), `"2 words"`)
}

// Each of these made every flag be followed to the end of the line: minutes for what takes a moment.
func TestFlagsAfterFlags(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{})
	for _, unit := range []string{"--authorization -a ", "--cookie -abcd "} {
		text := strings.Repeat(unit, 200_000)
		assert.True(t, text == r.Text(text), unit)
	}
}

// Each of these made every name be followed to the end of the text: minutes for what takes a moment.
func TestRedactManyDirectories(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{})
	for _, unit := range []string{"pwd=/", "pwd=~", "pwd:./", "old_pwd=/a"} {
		text := strings.Repeat(unit, 1<<18/len(unit))
		require.Equal(t, text, r.Text(text))
		require.Equal(t, text+" pwd=[redacted:password]", r.Text(text+" pwd=hunter2"))
	}
	require.Equal(t, "pwd='/srv/app' pwd=\"~/x\" PWD=/a/b", r.Text("pwd='/srv/app' pwd=\"~/x\" PWD=/a/b"))
}

// The name and the value may be dressed up.
func TestRedactDecorated(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{})
	for in, want := range map[string]string{
		"- **Password:** hunter2\n":                           "- **Password:** [redacted:password]\n",
		"- **Password**: hunter2\n":                           "- **Password**: [redacted:password]\n",
		"**API key:** `hunter2`":                              "**API key:** `[redacted:api-key]`",
		"*password*=hunter2":                                  "*password*=[redacted:password]",
		`<add key="DbPassword" value="hunter2" />`:            `<add key="DbPassword" value="[redacted:password]" />`,
		`<property name='password' value='hunter2'/>`:         `<property name='password' value='[redacted:password]'/>`,
		"password: !!str hunter2\nuser: bob":                  "password: [redacted:password]\nuser: bob",
		"password: &p !!str \"hunter2 x\"\nuser: bob":         "password: [redacted:password]\"\nuser: bob",
		"password: !abc hunter2":                              "password: [redacted:password]",
		"SECRET_KEY_BASE=hunter2hunter2":                      "SECRET_KEY_BASE=[redacted:secret]",
		"{\"password:\":\"hunter2\",\" Token \":\"hunter2\"}": "{\"password:\":\"[redacted:password]\",\" Token \":\"[redacted:token]\"}",
		`<input type="password" id="x" value=""/>`:            `<input type="password" id="x" value=""/>`,
		"**token** counts, **password** rules":                "**token** counts, **password** rules",
		"def f(*token, **password): pass":                     "def f(*token, **password): pass",
		"password ** 2":                                       "password ** 2",
	} {
		assert.Equal(t, want, r.Text(in), in)
	}
	for _, unit := range []string{"password: ! ", "password: &a ", "password: !\"", "**password:** ", "\"password\" value="} {
		text := strings.Repeat(unit, 1<<16/len(unit))
		assert.NotEmpty(t, r.Text(text))
	}
}

// What a template puts a secret into is none, and a tool that reads one returns it as it is.
func TestRedactLeavesTemplates(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{})
	for _, in := range []string{
		"password: ${{ secrets.DB_PASSWORD }}\n", "token: ${{secrets.GITHUB_TOKEN}}", "password: {{ .Values.db.password | quote }}\n",
		`API_KEY="${{ secrets.API_KEY }}"`, "--token ${{ secrets.TOKEN }} --x", "password={{- .Values.password -}}",
		"Authorization: ${{ secrets.TOKEN }}\n",
	} {
		assert.Equal(t, in, r.Text(in))
	}
	for in, want := range map[string]string{
		"password={{hunter2":              "password=[redacted:password]",
		"password={{x}}hunter2":           "password=[redacted:password]",
		`password={{ "hunter2" }}`:        `password=[redacted:password] "hunter2" }}`,
		"password: {{ a }} token=hunter2": "password: {{ a }} token=[redacted:token]",
	} {
		assert.Equal(t, want, r.Text(in), in)
	}
	wide := "password={{" + strings.Repeat(" ", 124) + "}}"
	assert.Equal(t, wide, r.Text(wide))
	assert.NotContains(t, r.Text(wide+"hunter2"), "{{ ")
	text := strings.Repeat("password={{ a }} ", 1<<12)
	assert.Equal(t, text, r.Text(text))
}

// An error that was cut in the middle of a URL still holds the first half of its password.
func TestRedactCutURL(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{})
	long := strings.Repeat("x ", 8<<10)
	assert.Equal(t, long+"dial postgres://bob:[redacted:token]…", r.Text(long+"dial postgres://bob:hunter2…"))
	assert.Equal(t, long+"dial http://localhost:8080", r.Text(long+"dial http://localhost:8080"))
}
