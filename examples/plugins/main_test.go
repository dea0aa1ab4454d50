package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/plugins"
	"github.com/assent-dev/assent/tool"
)

// The rule holds until it is unmounted; the tool and the audit stay.
func TestExample(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(context.Background(), nil, nil, &stdout, &stderr), stderr.String())
	require.Equal(t, `/tmp/a {"code":"OK","value":"deleted /tmp/a"}
/ {"code":"DENIED","failure":{"message":"refusing to touch the root of the file system","reason":"guard","by":"no-root"}}
/ {"code":"OK","value":"deleted /"}
`, stdout.String())
	var codes []tool.Code
	for line := range strings.Lines(stderr.String()) {
		var r plugins.AuditRecord
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		require.Equal(t, "delete", r.Tool)
		codes = append(codes, r.Code)
	}
	require.Equal(t, []tool.Code{tool.OK, tool.Denied, tool.OK}, codes)
}
