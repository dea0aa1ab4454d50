package plugins_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/plugins"
)

// Planted secrets are put together here, so that no scanner of this repository takes them for real ones.
var planted = map[string]string{
	"aws-key":            "AK" + "IAIOSFODNN7EXAMPLE",
	"github-token":       "gh" + "p_0123456789abcdefghijABCDEFGHIJ012345",
	"gitlab-token":       "gl" + "pat-0123456789abcdefghij",
	"slack-token":        "xo" + "xb-123456789012-123456789012-abcdefABCDEF",
	"stripe-key":         "sk" + "_live_0123456789abcdefghijABCD",
	"anthropic-key":      "sk-" + "ant-api03-0123456789abcdef_ghij-ABCDEFGHIJ",
	"openai-key":         "sk-" + "proj-0123456789abcdefghijABCDEFGHIJ",
	"google-key":         "AI" + "zaSyA0123456789abcdefghijABCDEFGHIJ01",
	"google-token":       "ya" + "29.a0AfH6SMB0123456789abcdefghij",
	"jwt":                "ey" + "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
	"npm-token":          "np" + "m_0123456789abcdefghijABCDEFGHIJ012345",
	"pypi-token":         "py" + "pi-AgEIcHlwaS5vcmcCJDAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5",
	"sendgrid-key":       "SG" + ".0123456789abcdefghijkl.0123456789abcdefghijABCDEFGHIJ0123456789abc",
	"huggingface-token":  "hf" + "_0123456789abcdefghijABCDEFGHIJ0123",
	"digitalocean-token": "do" + "p_v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
	"databricks-token":   "da" + "pi0123456789abcdef0123456789abcdef",
	"vault-token":        "hv" + "s.0123456789abcdefghijABCD",
	"age-key":            "AGE-" + "SECRET-KEY-10123456789ABCDEFGHJKLMNPQRSTUVWXYZ0123456789ABCDEFGHJKLMNPQRST",
	"twilio-key":         "S" + "K0123456789abcdef0123456789abcdef",
	"private-key":        "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MaFr+q1zWm8KpVuX\nQ29udGVudA==\n-----END RSA " + "PRIVATE KEY-----",
}

func redactor(t testing.TB, c plugins.RedactConfig) *plugins.Redactor {
	t.Helper()
	r, err := plugins.NewRedactor(c)
	require.NoError(t, err)
	return r
}

// Whatever stands around it, in text and in JSON however often encoded, a token is replaced and what is around it stays.
func TestPlantedSecretsAreReplaced(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{Keys: true})
	for kind, secret := range planted {
		t.Run(kind, func(t *testing.T) {
			mark := "[redacted:" + kind + "]"
			for _, around := range [][2]string{{"", ""}, {"a ", " z"}, {`"`, `"`}, {"é(", ")é"}, {"\n", "\n"}, {"x=1,", ",y"}, {"<b>", "</b>"}, {"'", "';"}} {
				text := around[0] + secret + around[1]
				assert.Equal(t, around[0]+mark+around[1], r.Text(text))
				value := any(text)
				for depth := range 6 {
					raw, err := json.Marshal(map[string]any{"n": 9007199254740993, "list": []any{true, map[string]any{"at": value}}})
					require.NoError(t, err)
					out, err := r.JSON(raw)
					require.NoError(t, err)
					require.True(t, json.Valid(out))
					assert.NotContains(t, string(out), secret[8:20], "depth %d", depth)
					assert.Contains(t, string(out), mark)
					assert.Contains(t, string(out), "9007199254740993")
					value = string(raw)
				}
			}
			raw, err := json.Marshal(map[string]any{secret: 1, "x" + secret: 2})
			require.NoError(t, err)
			out, err := r.JSON(raw)
			require.NoError(t, err)
			var back map[string]int
			require.NoError(t, json.Unmarshal(out, &back))
			assert.Len(t, back, 2, "%s", out)
			assert.NotContains(t, string(out), secret[8:20])
		})
	}
}

// Two secrets in the same key form stay two keys.
func TestKeysStayApart(t *testing.T) {
	a, b := planted["github-token"], planted["github-token"]+"z"
	raw := json.RawMessage(`{"` + a + `":1,"` + b + `":2,"plain":3}`)
	out, err := redactor(t, plugins.RedactConfig{Keys: true}).JSON(raw)
	require.NoError(t, err)
	assert.Equal(t, `{"[redacted:github-token]":1,"[redacted:github-token]-2":2,"plain":3}`, string(out))
	out, err = redactor(t, plugins.RedactConfig{}).JSON(raw)
	require.NoError(t, err)
	assert.Equal(t, string(raw), string(out), "keys are left alone unless asked for")
}

func TestAssignments(t *testing.T) {
	for in, want := range map[string]string{
		"password=hunter2":                               "password=[redacted:password]",
		"PASSWORD = hunter2 next":                        "PASSWORD = [redacted:password] next",
		"DB_PASSWORD=hunter2\nX=1":                       "DB_PASSWORD=[redacted:password]\nX=1",
		"export MYSQL_PASS='hunter 2'; ls":               "export MYSQL_PASS='[redacted:password]'; ls",
		"dbPass: hunter2":                                "dbPass: [redacted:password]",
		"mysql --password=hunter2 -u root":               "mysql --password=[redacted:password] -u root",
		"mysql --password hunter2 -u root":               "mysql --password [redacted:password] -u root",
		"tool --api-key abcd1234 go":                     "tool --api-key [redacted:api-key] go",
		`{"password": "hun\"ter2", "n": 1}x`:             `{"password": "[redacted:password]", "n": 1}x`,
		`x {\"password\":\"hunter2\",\"n\":1}`:           `x {\"password\":\"[redacted:password]\",\"n\":1}`,
		`x {\\\"pwd\\\":\\\"hunter2\\\",\\\"n`:           `x {\\\"pwd\\\":\\\"[redacted:password]\\\",\\\"n`,
		"api_key: abcd1234":                              "api_key: [redacted:api-key]",
		"apiKey: 'abcd1234',":                            "apiKey: '[redacted:api-key]',",
		"API key: abcd1234.":                             "API key: [redacted:api-key].",
		"aws_secret_access_key=wJalrXUtnFEMI/K7MD":       "aws_secret_access_key=[redacted:api-key]",
		"client_secret=abc&x=1":                          "client_secret=[redacted:secret]&x=1",
		"/cb?access_token=abcdef12&state=9":              "/cb?access_token=[redacted:token]&state=9",
		"Server=x;Password=a,b;User=y":                   "Server=x;Password=[redacted:password];User=y",
		"{Password:hunter2 User:bob}":                    "{Password:[redacted:password] User:bob}",
		"<password>hunter2</password>":                   "<password>[redacted:password]</password>",
		"password: |\n  hunter2\nnext: 1":                "password: |\n  [redacted:password]\nnext: 1",
		"Authorization: Bearer abc":                      "Authorization: [redacted:authorization]",
		"Authorization: Basic dXNlcjpw\nHost: x":         "Authorization: [redacted:authorization]\nHost: x",
		`curl -H "Authorization: token abc" x`:           `curl -H "Authorization: [redacted:authorization]" x`,
		"curl -H 'Authorization: Basic YQ==' x":          "curl -H 'Authorization: [redacted:authorization]' x",
		"Set-Cookie: sid=abcdef; Path=/":                 "Set-Cookie: [redacted:cookie]",
		"sent bearer abcdef0123456789 to it":             "sent bearer [redacted:bearer-token] to it",
		"postgres://bob:hunter2@db:5432/x":               "postgres://bob:[redacted:url-password]@db:5432/x",
		"postgres://bob:hun@ter2@db/x":                   "postgres://bob:[redacted:url-password]@db/x",
		"amqp://:hunter2@mq":                             "amqp://:[redacted:url-password]@mq",
		"https://u:p/w0@host/x":                          "https://u:[redacted:url-password]@host/x",
		"x.blob/c?sv=1&sig=abcdefghij0123456789%3D&se=2": "x.blob/c?sv=1&sig=[redacted:azure-signature]&se=2",
		"password := \"x\"":                              "password := \"[redacted:password]\"",
		"pass=hunter2":                                   "pass=[redacted:password]",
		"password1: a":                                   "password1: [redacted:password]",
		"password=password=password=x y":                 "password=[redacted:password] y",
		"password=[redacted:x]y":                         "password=[redacted:password]",
		`#define PASSWORD "hunter2"`:                     `#define PASSWORD "[redacted:password]"`,
		`password = """hunter2"""`:                       `password = """[redacted:password]"""`,
		`Password: []byte("hunter2"),`:                   `Password: [redacted:password]"),`,
		"\x1b[1mpassword\x1b[m=\x1b[31mhunter2\x1b[m":    "\x1b[1mpassword\x1b[m=\x1b[31m[redacted:password]",
		"machine a login b password hunter2":             "machine a login b password [redacted:password]",
		"//r/:_authToken=abcdef12":                       "//r/:_authToken=[redacted:token]",
		"pass= DB_PASSWORD: hunter2":                     "pass= [redacted:password] [redacted:password]",
		"the password= first":                            "the password= [redacted:password]",
	} {
		r := redactor(t, plugins.RedactConfig{})
		assert.Equal(t, want, r.Text(in), "%s", in)
		assert.Equal(t, want, r.Text(want), "again: %s", in)
	}
}

// What only looks like a secret stays, because an agent has to work with it.
func TestHarmlessTextStays(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{})
	for _, text := range []string{
		"", "pwd", "PWD=/home/bob", "password", "Enter your password:", "password: ${DB_PASSWORD}", "password=$PASSWORD", "token: {{ .Token }}",
		"Password: cfg.Password,", "token := os.Getenv(\"TOKEN\")", "p.password = get_password()", "password string", "password: string",
		"tests pass: 12", "bypass=1", "max_tokens: 8192", "next_page_token=abcdef123", "nextToken: abcdef123", "the key: 12", "api_key: <your-api-key>",
		"password: ****", "secret: null", "monkey: abcdefg", "http://localhost:8080/@scope/pkg", "git@github.com:a/b.git", "http://[::1]:80/x@y",
		"task-management-for-all-people", "disk-0123456789abcdefghij", "sk-learn-for-everybody", "eyJ is how it begins", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
		"the bearer of this letter is trusted", "basic knowledge of things", "f9ccf921-f090-7673-9ada-e3984452f446", "3f6725c9a1d0e2b4c5f6a7b8c9d0e1f2a3b4c5d6",
		"AKIA", "ghp_short", "1377 tokens in, 44 out", "tokenizer: bpe", `password: ''`, `password: ""`, `secret "my-secret" not found`, `unexpected token "foobarbaz"`, "secretary: Bob", "passenger: Bob", "keyboard: us", "authorizations: 3",
	} {
		assert.Equal(t, text, r.Text(text))
	}
}

// A key block is found with real and with escaped line breaks, cut off at either end, and in a list of lines.
func TestKeyBlocks(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{})
	const body = "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MaFr+q1zWm8KpVuX"
	begin, end := "-----BEGIN "+"PRIVATE KEY-----", "-----END "+"PRIVATE KEY-----"
	const mark = "[redacted:private-key]"
	for in, want := range map[string]string{
		"a " + begin + "\n" + body + "\n" + end + " z":                                                                 "a " + mark + " z",
		"a " + begin + `\n` + body + `\n` + end + " z":                                                                 "a " + mark + " z",
		"a " + begin + `\\n` + body + `\\n` + end + " z":                                                               "a " + mark + " z",
		"a " + begin + "\r\nProc-Type: 4,ENCRYPTED\r\n\r\n" + body + "\r\n" + end:                                      "a " + mark,
		"a (" + begin + "\n" + body + "\n" + body:                                                                      "a (" + mark,
		"{\n" + body + "\nQ29u\n" + end + " z":                                                                         "{" + mark + " z",
		"(" + begin + ") is how it begins":                                                                             "(" + mark + ") is how it begins",
		begin + "\n" + body + "\n" + end + "|" + begin + "\n" + body + "\n" + end:                                      mark + "|" + mark,
		begin + begin + "\n" + body + "\n" + end + ".":                                                                 mark + ".",
		"-----BEGIN OPENSSH " + "PRIVATE KEY-----\n" + body + "\n-----END OPENSSH " + "PRIVATE KEY-----":               mark,
		"-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\n\n" + body + "\n-----END PGP " + "PRIVATE KEY BLOCK-----":         mark,
		"---- BEGIN SSH2 ENCRYPTED " + "PRIVATE KEY ----\n" + body + "\n---- END SSH2 ENCRYPTED " + "PRIVATE KEY ----": mark,
		"PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 1\n" + body + "\n(end)":                                        "PuTTY-User-Key-File-3: ssh-rsa\n" + mark + "(end)",
	} {
		assert.Equal(t, want, r.Text(in), "%s", in)
	}
	lines, err := json.Marshal(map[string]any{"lines": []any{"one", begin, body, "Q29udGVudA==", end, "two"}, "n": 1,
		"hits": []any{map[string]any{"line": 1, "path": "k.pem", "text": begin}, map[string]any{"line": 2, "path": "k.pem", "text": body}}})
	require.NoError(t, err)
	out, err := r.JSON(lines)
	require.NoError(t, err)
	assert.NotContains(t, string(out), "MIIE")
	assert.NotContains(t, string(out), "Q29u")
	assert.Contains(t, string(out), `"k.pem"`)
	assert.Contains(t, string(out), `"one"`)
	assert.Contains(t, string(out), `"two"`)
}

// The structure of JSON says what is a secret, and everything else stays byte for byte.
func TestJSON(t *testing.T) {
	token := planted["github-token"]
	for in, want := range map[string]string{
		`{ "password" : "hunter2" , "n":1.50e+1, "big":9007199254740993 }`:                                                  `{ "password" : "[redacted:password]" , "n":1.50e+1, "big":9007199254740993 }`,
		`{"password":12345,"token":null,"secret":true,"pwd":{"a":[1]}}`:                                                     `{"password":12345,"token":null,"secret":true,"pwd":{"a":[1]}}`,
		`{"passwords":["a1","b2",["c3"]],"x":"a1"}`:                                                                         `{"passwords":["[redacted:password]","[redacted:password]",["[redacted:password]"]],"x":"a1"}`,
		`{"password":{"value":"hunter2","type":"plain"}}`:                                                                   `{"password":{"value":"[redacted:password]","type":"plain"}}`,
		`[{"name":"DB_PASSWORD","value":"hunter2"},{"value":"hunter2","name":"DB_PASSWORD"},{"name":"USER","value":"bob"}]`: `[{"name":"DB_PASSWORD","value":"[redacted:password]"},{"value":"[redacted:password]","name":"DB_PASSWORD"},{"name":"USER","value":"bob"}]`,
		`{"name":"DB_PASSWORD","values":["a1",["b2"]]}`:                                                                     `{"name":"DB_PASSWORD","values":["[redacted:password]",["[redacted:password]"]]}`,
		`{"Values":["a1"],"Key":"password"}`:                                                                                `{"Values":["[redacted:password]"],"Key":"password"}`,
		`{"name":"DB_PASSWORD","value":{"now":"a1","old":["b2"]},"x":"c3"}`:                                                 `{"name":"DB_PASSWORD","value":{"now":"[redacted:password]","old":["[redacted:password]"]},"x":"c3"}`,
		`{"name":"users","values":[{"name":"bob","value":"a1"},{"name":"pwd","value":"b2"}]}`:                               `{"name":"users","values":[{"name":"bob","value":"a1"},{"name":"pwd","value":"[redacted:password]"}]}`,
		`{"Authorization":"Bearer abc","Set-Cookie":"sid=abcdef"}`:                                                          `{"Authorization":"[redacted:authorization]","Set-Cookie":"[redacted:cookie]"}`,
		`{"token":"` + token + `"}`:                                                                                         `{"token":"[redacted:github-token]"}`,
		`{"nextPageToken":"abcdef123"}`:                                                                                     `{"nextPageToken":"abcdef123"}`,
		`{"pass\u0077ord":"hunter2"}`:                                                                                       `{"pass\u0077ord":"[redacted:password]"}`,
		`["gh\u0070_` + token[4:] + ` <&> \u00e9"]`:                                                                         `["[redacted:github-token] <&> é"]`,
		`"` + token + `"`: `"[redacted:github-token]"`,
		`"{\"password\":\"hun\\\"ter2\",\"n\":12}"`:                                      `"{\"password\":\"[redacted:password]\",\"n\":12}"`,
		`{"properties":{"password":{"type":"string","description":"the one"}}}`:          `{"properties":{"password":{"type":"string","description":"the one"}}}`,
		`{"apiKey":"abcd","api-key":"abcd","x-api-key":"abcd","SecretAccessKey":"abcd"}`: `{"apiKey":"[redacted:api-key]","api-key":"[redacted:api-key]","x-api-key":"[redacted:api-key]","SecretAccessKey":"[redacted:api-key]"}`,
		`{"a":"x","a":"password=y"}`:                                                     `{"a":"x","a":"password=[redacted:password]"}`,
		`[]`:                                                                             `[]`, `null`: `null`, ` 1 `: ` 1 `, `""`: `""`,
	} {
		out, err := redactor(t, plugins.RedactConfig{}).JSON(json.RawMessage(in))
		require.NoError(t, err, in)
		assert.Equal(t, want, string(out))
	}
	for _, in := range []string{``, `{`, `{"password":"hunter2"`, `password=hunter2`, strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)} {
		_, err := redactor(t, plugins.RedactConfig{}).JSON(json.RawMessage(in))
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	deep := strings.Repeat(`{"a":[`, 2000) + `"` + token + `"` + strings.Repeat("]}", 2000)
	out, err := redactor(t, plugins.RedactConfig{}).JSON(json.RawMessage(deep))
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(deep, token, "[redacted:github-token]", 1), string(out))
}

// A token in whose middle a long error was cut has its form no longer, and is found all the same.
func TestTokensThatWereCut(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{})
	long := strings.Repeat("all went well ", 2000)
	for _, kind := range []string{"github-token", "aws-key", "jwt", "anthropic-key", "google-key", "slack-token", "npm-token", "vault-token"} {
		for n := 8; n < len(planted[kind]); n++ {
			out := r.Text(long + planted[kind][:n] + "…")
			require.True(t, strings.HasPrefix(out, long+"[redacted:"), "%s", out[len(long):])
			require.True(t, strings.HasSuffix(out, "]…"), "%s", out[len(long):])
		}
	}
	assert.Equal(t, long, r.Text(long))
	// A multi-byte character before the tail stays whole.
	odd := strings.Repeat("é", 16<<10) + "x"
	assert.Equal(t, odd, r.Text(odd))
}

func TestPatternsOfOnesOwn(t *testing.T) {
	r := redactor(t, plugins.RedactConfig{
		Patterns: []plugins.Pattern{
			{Kind: "ticket", Expr: `TICKET-(\d+)`, Keywords: []string{"TICKET-"}},
			{Kind: "ssn", Expr: `\d{3}-\d{2}-\d{4}`, Check: func(s string) bool { return s != "000-00-0000" }},
		},
		Without: []string{"password", "jwt"},
	})
	assert.Equal(t, "TICKET-[redacted:ticket] [redacted:ssn] 000-00-0000 password=x "+planted["jwt"],
		r.Text("TICKET-12 123-45-6789 000-00-0000 password=x "+planted["jwt"]))
	out, err := r.JSON(json.RawMessage(`{"password":"x","token":"abcdefgh"}`))
	require.NoError(t, err)
	assert.Equal(t, `{"password":"x","token":"[redacted:token]"}`, string(out))
}

func TestRedactConfigErrors(t *testing.T) {
	for name, c := range map[string]plugins.RedactConfig{
		"kind":          {Patterns: []plugins.Pattern{{Kind: "A b", Expr: "x"}}},
		"no kind":       {Patterns: []plugins.Pattern{{Expr: "x"}}},
		"expr":          {Patterns: []plugins.Pattern{{Kind: "a", Expr: "("}}},
		"no expr":       {Patterns: []plugins.Pattern{{Kind: "a"}}},
		"empty match":   {Patterns: []plugins.Pattern{{Kind: "a", Expr: "x*"}}},
		"empty keyword": {Patterns: []plugins.Pattern{{Kind: "a", Expr: "x", Keywords: []string{""}}}},
		"without":       {Without: []string{"passwort"}},
	} {
		_, err := plugins.Redact(c)
		assert.True(t, fault.IsConfig(err), "%s: %v", name, err)
	}
	assert.Contains(t, plugins.Kinds(), "private-key")
	assert.IsIncreasing(t, plugins.Kinds())
}
