package workflows

import (
	"encoding/json"
	"fmt"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/tool"
)

// mostResults is how many bytes the results of one turn may weigh in the next request before they are shortened. A
// shortened one has at most some 8 KiB, so that a whole turn of them still fits into a payload.
const mostResults = 512 << 10

// fit shortens results from where they get too heavy for one payload: a request that the server refuses would be
// tried for ever. Values stay; they are inline only when they are small.
func fit(results []model.ToolResult) {
	total := 0
	for i := range results {
		n := weight(results[i])
		if total+n > mostResults {
			results[i].Result = shorten(results[i].Result)
			n = weight(results[i])
		}
		total += n
	}
}

func weight(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		// It came out of JSON; if it does not go back, it does not count as small.
		return mostResults
	}
	return len(b)
}

// shorten drops what explains, and says so.
func shorten(r tool.Result) tool.Result {
	const most, mostIssues, mostText = 1 << 10, 3, 100
	r.Preview = short(r.Preview, 2*mostText)
	if len(r.FinalInput) > 0 && weight(r.FinalInput) > most {
		r.FinalInput = json.RawMessage(`"the arguments were changed; they are too long to be shown here"`)
	}
	if r.Failure == nil {
		return r
	}
	f := *r.Failure
	f.Message = short(f.Message, 2*mostText)
	if len(f.Data) > 0 && weight(f.Data) > most {
		f.Data = nil
	}
	issues := f.Issues[:min(len(f.Issues), mostIssues)]
	f.Issues = make([]tool.Issue, len(issues))
	for i, issue := range issues {
		f.Issues[i] = tool.Issue{Pointer: short(issue.Pointer, mostText), Message: short(issue.Message, mostText)}
	}
	r.Failure = &f
	return r
}

// mostList is how many bytes the answer to the approvals query may weigh: one that the server refuses would leave
// people blind to everything that waits.
const mostList = 1 << 20

// fitList drops what is old, what explains, then the arguments of questions, and at last the youngest questions, and says
// so.
func fitList(l approval.List) approval.List {
	const recent = 20
	if weight(l) <= mostList {
		return l
	}
	l.Closed = l.Closed[max(0, len(l.Closed)-recent):]
	l.Ignored = l.Ignored[max(0, len(l.Ignored)-recent):]
	for i := range l.Closed {
		// By names them all.
		l.Closed[i].Votes = nil
	}
	total, inputs := 0, 0
	for i := range l.Pending {
		q := &l.Pending[i]
		q.Rule, q.Segments, q.Why = nil, nil, short(q.Why, 200)
		n := weight(q.Input)
		if inputs += n; inputs > mostList/2 {
			inputs -= n
			q.Input = json.RawMessage(fmt.Sprintf(`"the arguments have %d bytes; answer other questions first to see them"`, len(q.Input)))
		}
		if total += weight(q); total > mostList+mostList/2 {
			l.Pending, l.More = l.Pending[:i], len(l.Pending)-i
			break
		}
	}
	return l
}
