package approval_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
)

func TestUpcoming(t *testing.T) {
	escalate := &permission.Escalation{After: 2 * time.Hour}
	done := at.Add(time.Hour)
	for name, tc := range map[string]struct {
		q        approval.Approval
		policy   permission.ApprovalPolicy
		reminded time.Duration
		after    time.Duration
		what     approval.Occasion
	}{
		"nothing":             {approval.Approval{}, permission.ApprovalPolicy{Deadline: time.Hour}, 0, 0, ""},
		"escalation":          {approval.Approval{}, permission.ApprovalPolicy{Escalate: escalate}, 0, 2 * time.Hour, approval.AtEscalation},
		"escalated":           {approval.Approval{Escalated: &done}, permission.ApprovalPolicy{Escalate: escalate}, 0, 0, ""},
		"reminder":            {approval.Approval{Reminded: 1}, permission.ApprovalPolicy{Remind: time.Hour}, time.Hour, 2 * time.Hour, approval.AtReminder},
		"reminded enough":     {approval.Approval{Reminded: 100}, permission.ApprovalPolicy{Remind: time.Hour}, 0, 0, ""},
		"reminder first":      {approval.Approval{}, permission.ApprovalPolicy{Remind: time.Hour, Escalate: escalate}, 0, time.Hour, approval.AtReminder},
		"at the same moment":  {approval.Approval{}, permission.ApprovalPolicy{Remind: 2 * time.Hour, Escalate: escalate}, 0, 2 * time.Hour, approval.AtEscalation},
		"escalation was late": {approval.Approval{Escalated: &done}, permission.ApprovalPolicy{Remind: time.Hour, Escalate: escalate}, 0, time.Hour, approval.AtReminder},
	} {
		tc.q.AskedAt = at
		got, what := tc.q.Upcoming(tc.policy, at.Add(tc.reminded))
		require.Equal(t, tc.what, what, name)
		if what != "" {
			require.Equal(t, at.Add(tc.after), got, name)
		}
	}
}

func TestEscalate(t *testing.T) {
	policy := &permission.Approvers{Groups: []string{"ops"}, Min: 2}
	q := approval.Approval{Approvers: policy}
	q.Escalate(at, []string{"leads", "ops"})
	require.Equal(t, at, *q.Escalated)
	require.Equal(t, []string{"leads", "ops"}, q.EscalatedTo)
	require.Equal(t, &permission.Approvers{Groups: []string{"ops", "leads"}, Min: 2}, q.Approvers)
	require.Equal(t, []string{"ops"}, policy.Groups, "the policy stays")
	for _, anybody := range []*permission.Approvers{nil, {Min: 2}} {
		q = approval.Approval{Approvers: anybody}
		q.Escalate(at, []string{"leads"})
		require.Equal(t, anybody, q.Approvers)
	}
}

func TestJoin(t *testing.T) {
	c := approval.Closed{By: "alice", Signed: true}
	c.Join([]approval.Vote{{By: "alice"}})
	require.Equal(t, approval.Closed{By: "alice", Signed: true}, c)
	votes := []approval.Vote{{By: "alice", Signed: true}, {By: "bob"}}
	c.Join(votes)
	require.Equal(t, approval.Closed{By: "alice, bob", Votes: votes}, c)
	c.Join([]approval.Vote{{By: "x" + strings.Repeat("é", 1000), Signed: true}, {By: "bob", Signed: true}})
	require.True(t, c.Signed)
	require.Equal(t, "x"+strings.Repeat("é", 999)+"…", c.By, "a character is not cut")
}
