package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
)

// A thousand questions of eight agents are one list, each with its arguments and its command; one command denies them all,
// and none is lost. It runs alone: other tests look at what waits in the whole namespace, too.
func TestAThousandQuestions(t *testing.T) {
	const agents, each = 8, 125
	mark := unique(t)
	var calls []string
	for i := range each {
		calls = append(calls, fmt.Sprintf(`{tool: shell, args: {command: "echo %s %d"}}`, mark, i))
	}
	w := newWorld(t, "turns: [{calls: ["+strings.Join(calls, ", ")+"]}, {say: done}]\n", "")
	w.work()
	var ids []string
	for range agents {
		id, _ := w.begun(each)
		ids = append(ids, id)
	}
	found := map[string]bool{}
	for _, q := range lines[listed](t, w.ok(w.starter("approvals", "-o", "json")).out.String()) {
		if strings.Contains(string(q.Input), mark) {
			found[q.WorkflowID+" "+q.Key] = true
		}
	}
	require.Len(t, found, agents*each)
	text := w.ok(w.starter("approvals")).out.String()
	for question := range found {
		id, key, _ := strings.Cut(question, " ")
		require.Contains(t, text, key+"   "+id+" (p)   asked ")
	}

	query := "WorkflowId IN ('" + strings.Join(ids, "', '") + "')"
	out := w.ok(w.starter("deny", "--all", "--query", query, "--by", "alice", "--reason", "all of it", "--yes", "-o", "json")).out.String()
	for _, r := range lines[result](t, out) {
		require.Empty(t, r.Error)
		require.Equal(t, approval.Deny, r.Decision)
		delete(found, r.WorkflowID+" "+r.Key)
	}
	require.Empty(t, found, "each has its answer")
	for _, id := range ids {
		require.Equal(t, each, strings.Count(w.ok(w.starter("watch", id)).out.String(), "  denied  "))
	}
	require.NotContains(t, w.ok(w.starter("approvals")).out.String(), mark)
}
