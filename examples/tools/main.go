// Command tools defines a tool in each form and calls it without an agent: no server, no model, the same gate.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/assent-dev/assent/pipeline"
	"github.com/assent-dev/assent/tool"
)

type SearchInput struct {
	Query string `json:"query" jsonschema:"minLength=1" jsonschema_description:"Words to look for, in any order"`
	Limit int    `json:"limit,omitempty" jsonschema:"default=10,minimum=1,maximum=50"`
}

type SearchOutput struct {
	Issues []string `json:"issues"`
}

var Search = tool.MustNew("search_issues", "Search the issue tracker and return the top matches.", search,
	tool.Version("2"), tool.Risk(tool.Read))

func search(ctx context.Context, c *tool.Context, in SearchInput) (SearchOutput, error) {
	if in.Query == "*" {
		return SearchOutput{}, tool.ModelRetry{Message: "a star matches everything; name a word"}
	}
	return SearchOutput{Issues: []string{fmt.Sprintf("%s, at most %d", in.Query, in.Limit)}}, nil
}

var transfer = json.RawMessage(`{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"},"cents":{"type":"integer","minimum":1}},
	"required":["from","to","cents"],"additionalProperties":false}`)

// otherAccount says what the schema cannot.
func otherAccount(input json.RawMessage) error {
	var in struct{ From, To string }
	if err := json.Unmarshal(input, &in); err != nil {
		return err
	}
	if in.From == in.To {
		return errors.New("from and to are the same account")
	}
	return nil
}

func pay(_ context.Context, c *tool.Context, input json.RawMessage) (any, error) {
	return map[string]any{"booked": input, "approvedBy": c.Approved.By}, nil
}

// clock imports nothing of Assent.
type clock struct{}

func (clock) Name() string                                          { return "clock" }
func (clock) Description() string                                   { return "Tells the time in UTC." }
func (clock) Execute(context.Context, json.RawMessage) (any, error) { return "12:00", nil }

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, _ []string, _ io.Reader, stdout, stderr io.Writer) int {
	p := pipeline.New(pipeline.Config{})
	defer p.Close()
	if _, err := p.Mount(pipeline.PluginFunc("bank", mount)); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	for _, call := range [][2]string{{"search_issues", `{"query":"login"}`}, {"search_issues", `{"query":"*"}`}, {"search_issues", `{"limit":99}`},
		{"pay", `{"from":"a","to":"a","cents":9007199254740993}`}, {"pay", `{"from":"a","to":"b","cents":9007199254740993}`}, {"clock", `{}`}} {
		text, _ := json.Marshal(p.Execute(ctx, call[0], json.RawMessage(call[1])))
		fmt.Fprintln(stdout, call[0], call[1], "\n ", string(text))
	}
	return 0
}
