package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/verify"
)

// recorded is the folder of the histories that the repository keeps.
func recorded(t testing.TB) string {
	dir, err := filepath.Abs(filepath.Join("..", "..", "workflows", "testdata", "histories"))
	require.NoError(t, err)
	return dir
}

// What verify and policy replay make of files, as a process sees it.
func TestHistoryScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: filepath.Join("testdata", "history"), RequireUniqueNames: true, Setup: func(e *testscript.Env) error {
		e.Setenv("HOME", e.WorkDir)
		e.Setenv("NO_COLOR", "1")
		e.Setenv("HISTORIES", recorded(t))
		return nil
	}})
}

// verified runs the command in process on a history from standard input.
func verified(t *testing.T, history []byte, args ...string) (verify.Report, int, string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(context.Background(), append([]string{"verify", "-", "-o", "json"}, args...), bytes.NewReader(history), &out, &errs)
	var r verify.Report
	if out.Len() > 0 {
		require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	}
	return r, code, errs.String()
}

// One byte of a call's arguments is enough.
func TestVerifyFindsAnotherByte(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(recorded(t), "asked-and-allowed.json"))
	require.NoError(t, err)
	r, code, _ := verified(t, text)
	require.Equal(t, exit.OK, code)
	require.Len(t, r.Calls, 1)
	require.Empty(t, r.Findings)

	var h map[string][]map[string]any
	require.NoError(t, json.Unmarshal(text, &h))
	changed := 0
	for _, e := range h["events"] {
		a, _ := e["activityTaskScheduledEventAttributes"].(map[string]any)
		if a == nil || a["activityType"].(map[string]any)["name"] != "tool.run" {
			continue
		}
		p := a["input"].(map[string]any)["payloads"].([]any)[0].(map[string]any)
		data := decodeBase64(t, p["data"].(string))
		require.Contains(t, data, `{"text":"a"}`)
		p["data"] = encodeBase64(strings.Replace(data, `{"text":"a"}`, `{"text":"b"}`, 1))
		changed++
	}
	require.Equal(t, 1, changed)
	text, err = json.Marshal(h)
	require.NoError(t, err)
	r, code, _ = verified(t, text)
	require.Equal(t, exit.Failed, code)
	require.Len(t, r.Findings, 1)
	require.Equal(t, verify.OtherInput, r.Findings[0].Kind)
	require.Equal(t, r.Calls[0].EventID, r.Findings[0].EventID)
}

func decodeBase64(t *testing.T, s string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	require.NoError(t, err)
	return string(b)
}

func encodeBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
