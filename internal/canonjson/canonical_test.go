package canonjson_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/canonjson"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"words", ` [ true , false , null ] `, `[true,false,null]`},
		{"empty", `[{},[],""]`, `[{},[],""]`},
		{"white space", "\t\r\n{ \"a\" :\n1 }", `{"a":1}`},
		{"members sorted at every level", `{"b":{"d":1,"c":[{"z":1,"y":2}]},"a":2}`, `{"a":2,"b":{"c":[{"y":2,"z":1}],"d":1}}`},
		{"prefix sorts first", `{"ab":1,"a":2,"":3}`, `{"":3,"a":2,"ab":1}`},
		{"keys by UTF-16 units", `{"\ufb33":1,"\ud83d\ude00":2,"\u20ac":3}`, "{\"€\":3,\"😀\":2,\"\ufb33\":1}"},
		{"two wide keys", `{"😁":1,"😀":2}`, `{"😀":2,"😁":1}`},
		{"wide after narrow", `{"😀":1,"€":2,"é":3}`, `{"é":3,"€":2,"😀":1}`},
		{"escapes", `"\"\\\/\b\f\n\r\t\u0000\u001F\u007f\u2028\u00e9<>&"`, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\u007f\u2028é<>&\""},
		{"noncharacters stay", "\"\\uffff\U0010ffff\"", "\"\uffff\U0010ffff\""},
		{"replacement character is a character", "\"\uFFFD\"", "\"\uFFFD\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := canonjson.Canonical([]byte(c.in))
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

// The first half is what ES6 prints, the second what no float64 holds and therefore keeps its digits.
func TestNumbers(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "0.0": "0", "-0e5": "0", "0e99999999999999999999": "0",
		"1": "1", "1.0": "1", "10e-1": "1", "100": "100", "1e2": "100", "-1.50": "-1.5",
		"1e21": "1e+21", "1e20": "100000000000000000000", "123456789012345680000": "123456789012345680000",
		"1e-6": "0.000001", "1e-7": "1e-7", "1e-07": "1e-7", "0.0000001": "1e-7", "1.5E+300": "1.5e+300",
		"5e-324": "5e-324", "1.7976931348623157e308": "1.7976931348623157e+308",
		"9007199254740991": "9007199254740991", "0.1": "0.1", "333333333.3333333": "333333333.3333333",

		"9007199254740993":               "9007199254740993",
		"9007199254740993.0":             "9007199254740993",
		"-9007199254740993":              "-9007199254740993",
		"123456789012345683968":          "123456789012345683968",
		"12345678901234567890123":        "12345678901234567890123",
		"1.2345678901234567890123e22":    "12345678901234567890123",
		"123456789012345678901234567890": "123456789012345678901234567890",
		"1234567890123456789012345.5":    "1234567890123456789012345.5",
		"0.12345678901234567890123":      "0.12345678901234567890123",
		"0.0012345678901234567890123":    "0.0012345678901234567890123",
		"1.2345678901234567890123e-9":    "1.2345678901234567890123e-9",
		"12345678901234567890123e40":     "1.2345678901234567890123e+62",
		"1e400":                          "1e+400",
		"10e399":                         "1e+400",
		"-1e-400":                        "-1e-400",
		"333333333.33333329":             "333333333.33333329", // its float64 prints one digit less: another number
		"1e9999":                         "1e+9999",
		"1e-10001":                       "1e-10001",
	} {
		got, err := canonjson.Canonical([]byte(in))
		require.NoError(t, err, in)
		require.Equal(t, want, string(got), in)
	}
}

func TestErrors(t *testing.T) {
	deep := strings.Repeat("[", canonjson.MaxDepth)
	for _, c := range []struct {
		name, in string
		want     error
		pointer  string
	}{
		{"nothing", ``, canonjson.ErrSyntax, ""},
		{"byte order mark", "\ufeff1", canonjson.ErrSyntax, ""},
		{"not a value", `?`, canonjson.ErrSyntax, ""},
		{"NUL", "\x00", canonjson.ErrSyntax, ""},
		{"half a word", `tru`, canonjson.ErrSyntax, ""},
		{"wrong word", `falsy`, canonjson.ErrSyntax, ""},
		{"not null", `[nil]`, canonjson.ErrSyntax, "/0"},
		{"array without comma", `[1 2]`, canonjson.ErrSyntax, ""},
		{"open array", `[1,`, canonjson.ErrSyntax, "/1"},
		{"object without colon", `{"a" 1}`, canonjson.ErrSyntax, ""},
		{"object without comma", `{"a":1 "b":2}`, canonjson.ErrSyntax, ""},
		{"object with comma at the end", `{"a":1,}`, canonjson.ErrSyntax, ""},
		{"key that is no string", `{1:2}`, canonjson.ErrSyntax, ""},
		{"bad key", `{"\q":2}`, canonjson.ErrSyntax, ""},
		{"bad value", `{"a":{"b/~":[0,+1]}}`, canonjson.ErrSyntax, "/a/b~1~0/1"},
		{"open string", `"a`, canonjson.ErrSyntax, ""},
		{"control in string", "\"\n\"", canonjson.ErrSyntax, ""},
		{"backslash at the end", `"\`, canonjson.ErrSyntax, ""},
		{"bad hex", `"\u12g4"`, canonjson.ErrSyntax, ""},
		{"hex that only looks like digits", "\"\\u\x10\x10\x10\x10\"", canonjson.ErrSyntax, ""},
		{"short hex", `"\u12`, canonjson.ErrSyntax, ""},
		{"bad hex in the other half", `"\ud83d\u12"`, canonjson.ErrSyntax, ""},
		{"leading zero", `01`, canonjson.ErrTrailingData, ""},
		{"no digits", `-`, canonjson.ErrSyntax, ""},
		{"no fraction", `1.`, canonjson.ErrSyntax, ""},
		{"no exponent", `1e+`, canonjson.ErrSyntax, ""},
		{"infinity", `{"maximum":Infinity}`, canonjson.ErrSyntax, "/maximum"},
		{"exponent too large", `{"n":1e10000}`, canonjson.ErrNumberRange, "/n"},
		{"exponent too small", `1e-10002`, canonjson.ErrNumberRange, ""},
		{"exponent beyond int", `1e99999999999999999999`, canonjson.ErrNumberRange, ""},
		{"exponent at the end of int", `1e9223372036854775807`, canonjson.ErrNumberRange, ""},
		{"exponent at the other end of int", `0.001e-9223372036854775808`, canonjson.ErrNumberRange, ""},
		{"digits without end", `{"n":0.` + strings.Repeat("1", canonjson.MaxDigits+1) + `}`, canonjson.ErrNumberRange, "/n"},
		{"duplicate key", `{"a":{"k":1,"j":2,"k":3}}`, canonjson.ErrDuplicateKey, "/a/k"},
		{"duplicate key in disguise", `{"a":1,"\u0061":2}`, canonjson.ErrDuplicateKey, "/a"},
		{"lone high surrogate", `"\ud83d"`, canonjson.ErrLoneSurrogate, ""},
		{"lone high surrogate at the end", `"\ud83d`, canonjson.ErrLoneSurrogate, ""},
		{"lone low surrogate", `{"k":"\ude00"}`, canonjson.ErrLoneSurrogate, "/k"},
		{"high surrogate twice", `"\ud83d\ud83d"`, canonjson.ErrLoneSurrogate, ""},
		{"surrogate and letter", `"\ud83d\u0061"`, canonjson.ErrLoneSurrogate, ""},
		{"invalid UTF-8", "\"\xff\"", canonjson.ErrInvalidUTF8, ""},
		{"UTF-8 of a surrogate", "\"\xed\xa0\x80\"", canonjson.ErrInvalidUTF8, ""},
		{"two values", `{} {}`, canonjson.ErrTrailingData, ""},
		{"too deep", deep + "[", canonjson.ErrTooDeep, strings.Repeat("/0", canonjson.MaxDepth)},
		{"objects too deep", deep + `{"a":1}`, canonjson.ErrTooDeep, strings.Repeat("/0", canonjson.MaxDepth)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := canonjson.Canonical([]byte(c.in))
			require.Nil(t, got)
			require.ErrorIs(t, err, c.want)
			var e *canonjson.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.pointer, e.Pointer)
			require.LessOrEqual(t, e.Offset, len(c.in))
			require.ErrorIs(t, canonjson.Object([]byte(c.in)), c.want)
		})
	}
	_, err := canonjson.Canonical([]byte(deep + strings.Repeat("]", canonjson.MaxDepth)))
	require.NoError(t, err, "the limit itself is accepted")
}

// The rows of more.jsonl were computed by another program, from the words of RFC 8785 alone.
func TestMoreRows(t *testing.T) {
	kinds := map[string]error{"duplicate": canonjson.ErrDuplicateKey, "surrogate": canonjson.ErrLoneSurrogate,
		"syntax": canonjson.ErrSyntax, "trailing": canonjson.ErrTrailingData, "number": canonjson.ErrNumberRange}
	f, err := os.Open("testdata/more.jsonl")
	require.NoError(t, err)
	defer f.Close()
	rows := 0
	for s := bufio.NewScanner(f); s.Scan(); rows++ {
		var row struct{ In, Canonical, Error string }
		require.NoError(t, json.Unmarshal(s.Bytes(), &row))
		got, err := canonjson.Canonical([]byte(row.In))
		if row.Error != "" {
			require.Error(t, kinds[row.Error], row.Error)
			require.ErrorIs(t, err, kinds[row.Error], "%q", row.In)
			continue
		}
		require.NoError(t, err, "%q", row.In)
		require.Equal(t, row.Canonical, string(got), "%q", row.In)
		again, err := canonjson.Canonical(got)
		require.NoError(t, err)
		require.Equal(t, string(got), string(again))
	}
	require.Greater(t, rows, 150)
}

func TestErrorText(t *testing.T) {
	_, err := canonjson.Canonical([]byte(`{"a":1,"a":2}`))
	require.EqualError(t, err, `json "/a": duplicate key at byte 7`)
	_, err = canonjson.Canonical([]byte(`{"a":?}`))
	require.EqualError(t, err, `json "/a": syntax error at byte 5: unexpected '?', want a value`)
	_, err = canonjson.Canonical([]byte(`{"a":`))
	require.EqualError(t, err, `json "/a": syntax error at byte 5: unexpected end, want a value`)
}

func TestPointerIsBounded(t *testing.T) {
	key := strings.Repeat("é", 1<<16)
	for name, in := range map[string]string{
		"one long key":   `{"` + key + `":?}`,
		"many keys":      strings.Repeat(`{"`+key[:400]+`":`, 900),
		"long and twice": `{"` + key + `":1,"` + key + `":2}`,
	} {
		_, err := canonjson.Canonical([]byte(in))
		var e *canonjson.Error
		require.ErrorAs(t, err, &e, name)
		require.Less(t, len(e.Pointer), 5000, name)
		require.True(t, utf8.ValidString(e.Pointer), name)
		require.Contains(t, e.Pointer, "…", name)
	}
}

func TestObject(t *testing.T) {
	require.NoError(t, canonjson.Object([]byte(` {"b":1,"a":2} `)))
	for _, in := range []string{`[]`, `"{}"`, `null`, `1`, `true`} {
		require.ErrorIs(t, canonjson.Object([]byte(in)), canonjson.ErrNotObject, in)
	}
}

func TestMarshal(t *testing.T) {
	got, err := canonjson.Marshal(map[string]any{"z": "<&>", "a": json.Number("9007199254740993"), "m": []float64{1e21, 0.5}})
	require.NoError(t, err)
	require.Equal(t, `{"a":9007199254740993,"m":[1e+21,0.5],"z":"<&>"}`, string(got))

	_, err = canonjson.Marshal(math.NaN())
	var unsupported *json.UnsupportedValueError
	require.ErrorAs(t, err, &unsupported)
	_, err = canonjson.Marshal(json.RawMessage(`{"a":1,"a":2}`))
	require.ErrorIs(t, err, canonjson.ErrDuplicateKey)
}

func TestAppendString(t *testing.T) {
	got, err := canonjson.AppendString([]byte("x"), "a\"\\\b\f\n\r\t\x00é😀<>/")
	require.NoError(t, err)
	require.Equal(t, `x"a\"\\\b\f\n\r\t\u0000é😀<>/"`, string(got))
	_, err = canonjson.AppendString(nil, "a\xff")
	require.ErrorIs(t, err, canonjson.ErrInvalidUTF8)
}

func TestApprovalKeys(t *testing.T) {
	f, err := os.Open("testdata/approval_key.jsonl")
	require.NoError(t, err)
	defer f.Close()
	rows := 0
	for s := bufio.NewScanner(f); s.Scan(); rows++ {
		var row struct {
			ID, ToolName, Canonical, Key string
			Input                        json.RawMessage
		}
		require.NoError(t, json.Unmarshal(s.Bytes(), &row))
		got, err := canonjson.Marshal(map[string]any{"kind": "approval", "toolName": row.ToolName, "input": row.Input})
		require.NoError(t, err, row.ID)
		require.Equal(t, row.Canonical, string(got), row.ID)
		require.Equal(t, row.Key, canonjson.SHA256(got), row.ID)
	}
	require.Equal(t, 11, rows)
}

func TestResultSharesNoMemory(t *testing.T) {
	in := []byte(`{"a":1}`)
	got, err := canonjson.Canonical(in)
	require.NoError(t, err)
	in[2] = 'b'
	require.Equal(t, `{"a":1}`, string(got))
}

func TestErrorIsOneSentinel(t *testing.T) {
	_, err := canonjson.Canonical([]byte(`[`))
	require.False(t, errors.Is(err, canonjson.ErrTrailingData))
}
