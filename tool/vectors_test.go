package tool_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/tool"
)

// rows decodes a file of JSON lines.
func rows[Row any](t *testing.T, path string) []Row {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var all []Row
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var row Row
		require.NoError(t, json.Unmarshal(s.Bytes(), &row), s.Text())
		all = append(all, row)
	}
	require.NoError(t, s.Err())
	return all
}

func echo(_ context.Context, _ *tool.Context, input json.RawMessage) (any, error) { return input, nil }

func TestHashVectors(t *testing.T) {
	type hashRow struct {
		ID, ToolsetHash, Canonical string
		Raw                        bool
		Tools                      []tool.Info
	}
	all := rows[hashRow](t, "testdata/hash.jsonl")
	require.Len(t, all, 27)
	// Computed by another program, from the words of RFC 8785 alone.
	more := rows[hashRow](t, "testdata/more_hash.jsonl")
	require.NotEmpty(t, more)
	for _, row := range append(all, more...) {
		t.Run(row.ID, func(t *testing.T) {
			require.Equal(t, row.ToolsetHash, tool.ToolsetHash(row.Tools))
			require.Equal(t, row.ToolsetHash, canonjson.SHA256([]byte(row.Canonical)))
			canonical, err := canonjson.Canonical([]byte(row.Canonical))
			require.NoError(t, err)
			require.Equal(t, row.Canonical, string(canonical))
			if row.Raw {
				return
			}
			// The same tools, defined, hash to the same, and the order of definition does not matter.
			var defs []*tool.Def
			for _, i := range row.Tools {
				def, err := tool.FromSchema(i.Name, i.Description, i.Parameters, echo, tool.Options{Version: i.Version, Risk: tool.Write})
				require.NoError(t, err)
				require.Equal(t, tool.ContractHash(i), def.ContractHash())
				defs = append([]*tool.Def{def}, defs...)
			}
			set, err := tool.ToolsetOf(defs...)
			require.NoError(t, err)
			require.Equal(t, row.ToolsetHash, set.Hash())
		})
	}
}

func TestSchemaVectors(t *testing.T) {
	type schemaRow struct {
		ID            string
		Schema, Value json.RawMessage
		Valid         bool
	}
	all := rows[schemaRow](t, "testdata/schema.jsonl")
	require.Len(t, all, 114)
	more := rows[schemaRow](t, "testdata/more_schema.jsonl")
	require.NotEmpty(t, more)
	for _, row := range append(all, more...) {
		t.Run(row.ID, func(t *testing.T) {
			v, err := tool.CompileSchema(row.Schema)
			require.NoError(t, err)
			issues := v.Validate(row.Value)
			require.Equal(t, row.Valid, len(issues) == 0, "%s against %s: %v", row.Value, row.Schema, issues)
			require.JSONEq(t, string(row.Schema), string(v.Schema()))
		})
	}
}

func TestDefinitionVectors(t *testing.T) {
	type definitionRow struct {
		ID, Want string
		Init     map[string]json.RawMessage
	}
	all := rows[definitionRow](t, "testdata/definition_errors.jsonl")
	require.Len(t, all, 25)
	more := rows[definitionRow](t, "testdata/more_definition_errors.jsonl")
	require.NotEmpty(t, more)
	for _, row := range append(all, more...) {
		t.Run(row.ID, func(t *testing.T) {
			err := define(t, row.Init)
			if row.Want == "accepted" {
				require.NoError(t, err)
				return
			}
			var config *fault.ConfigError
			require.ErrorAs(t, err, &config)
			require.NotEmpty(t, config.Key)
		})
	}
}

// define defines a tool that is right except for the fields that init sets.
func define(t *testing.T, init map[string]json.RawMessage) error {
	t.Helper()
	text := func(field, otherwise string) string {
		if raw, ok := init[field]; ok {
			require.NoError(t, json.Unmarshal(raw, &otherwise))
		}
		return otherwise
	}
	parameters := json.RawMessage(`{"type":"object"}`)
	if raw, ok := init["parameters"]; ok {
		// JSON has no infinity; the vector writes it as a word.
		parameters = json.RawMessage(strings.ReplaceAll(string(raw), `"<Infinity>"`, "Infinity"))
	}
	fn := echo
	if _, ok := init["execute"]; ok {
		fn = nil
	}
	timeout, err := time.ParseDuration(text("timeout", "0s"))
	require.NoError(t, err)
	opts := []tool.Option{tool.Risk(text("risk", "")), tool.Executor(text("executor", "")), tool.Timeout(timeout)}
	var pair struct {
		JSONSchema json.RawMessage
		Validate   string
	}
	if json.Unmarshal(parameters, &pair) == nil && pair.JSONSchema != nil {
		validate := func(json.RawMessage) error { return nil }
		if pair.Validate == "" {
			validate = nil
		}
		_, err := tool.FromPair(text("name", "a"), text("description", "d"), pair.JSONSchema, validate, fn, opts...)
		return err
	}
	_, err = tool.FromSchema(text("name", "a"), text("description", "d"), parameters, fn, opts...)
	return err
}
