package permission

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/assent-dev/assent/permission/argv"
)

// ProposeVetted returns the vetted line that allows the commands of a call and nothing else. Whether it would let the
// call through is for a chain with it to say: a vetted line beats no deny rule, and no ask rule with a pattern. The error
// says why there is no such line.
func ProposeVetted(toolName string, raw json.RawMessage) (Vetted, error) {
	in := readInput(raw)
	if in.noCommand != "" {
		return Vetted{}, fmt.Errorf("only commands can be vetted, and %s", in.noCommand)
	}
	line := Vetted{Tool: Many(toolName)}
	seen := map[string]bool{}
	for _, c := range in.commands {
		for _, s := range c.Match(argv.Tables{}).Segments {
			p, ok := argv.Suggest(s.Segment)
			if !ok {
				return Vetted{}, fmt.Errorf("no pattern allows exactly %s", strconv.Quote(s.Segment))
			}
			if !seen[p] {
				seen[p] = true
				line.Argv.Values = append(line.Argv.Values, p)
			}
		}
	}
	return line, nil
}
