package tool_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assent-dev/assent/tool"
)

// against runs work b.N times and reports how many times as long it takes as reading and writing the same bytes with
// encoding/json, measured in the same run.
func against(b *testing.B, bytes json.RawMessage, work func()) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		work()
	}
	took := float64(b.Elapsed()) / float64(b.N)
	const rounds = 200
	start := time.Now()
	for range rounds {
		var v any
		if err := json.Unmarshal(bytes, &v); err != nil {
			b.Fatal(err)
		}
		if _, err := json.Marshal(v); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(took/(float64(time.Since(start))/rounds), "x-json")
}

// twenty are the tools of a large agent: six properties each, a kilobyte of schema.
func twenty(b *testing.B) tool.Toolset {
	b.Helper()
	type argument struct {
		Query  string   `json:"query" jsonschema:"minLength=1" jsonschema_description:"What to look for, in the words of the person who asked"`
		Dir    string   `json:"dir,omitempty" jsonschema_description:"Where to look, relative to the working directory"`
		Limit  int      `json:"limit,omitempty" jsonschema:"default=10,minimum=1,maximum=100"`
		Kinds  []string `json:"kinds,omitempty" jsonschema:"enum=file,enum=dir,enum=link"`
		Since  string   `json:"since,omitempty" jsonschema:"format=date-time"`
		Nested struct {
			Deep bool     `json:"deep"`
			Tags []string `json:"tags"`
		} `json:"nested"`
	}
	var infos []tool.Info
	for n := range 20 {
		schema, err := tool.SchemaFor[argument]()
		if err != nil {
			b.Fatal(err)
		}
		version := "1"
		infos = append(infos, tool.Info{Name: fmt.Sprintf("search_%02d", n), Description: strings.Repeat("Searches the tracker. ", 8), Parameters: schema, Version: &version})
	}
	set, err := tool.NewToolset(infos...)
	if err != nil {
		b.Fatal(err)
	}
	return set
}

func BenchmarkToolsetHash20(b *testing.B) {
	set := twenty(b)
	data, err := json.Marshal(set)
	if err != nil {
		b.Fatal(err)
	}
	against(b, data, func() { set.Hash() })
}

func BenchmarkToolsetHash20Anew(b *testing.B) {
	infos := twenty(b).Infos()
	data, err := json.Marshal(infos)
	if err != nil {
		b.Fatal(err)
	}
	against(b, data, func() { tool.ToolsetHash(infos) })
}

func BenchmarkAttest20(b *testing.B) {
	set := twenty(b)
	data, err := json.Marshal(set)
	if err != nil {
		b.Fatal(err)
	}
	against(b, data, func() { tool.Attest(set) })
}

func BenchmarkValidateSmall(b *testing.B) {
	d, err := tool.New("find", "Finds things", runFind)
	if err != nil {
		b.Fatal(err)
	}
	input := json.RawMessage(`{"query":"users with an open invoice","limit":25}`)
	against(b, input, func() {
		if issues := d.Validate(input); issues != nil {
			b.Fatal(issues)
		}
	})
}
