package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/worktree"
)

// replayFlags are the flags of policy replay.
type replayFlags struct {
	query string
	limit int
}

func (a *app) policyReplayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay POLICY [--query QUERY | ID… | FILE…]",
		Short: "Say which recorded calls another policy would decide otherwise",
		Long: `Put the recorded calls of past agents to another policy, without running anything, and say which verdicts change.

The calls come from histories: of the workflows that a visibility query finds, of the IDs, with the runs they were
continued or reset from, or of files as verify reads them. Each is judged with what is recorded of its tool, its
arguments, its profile and the rules of its agent's own input. Hooks, listeners and guards in Go are in no policy file and
are not asked. The exit code is 0 whatever changes.`,
		Example: `  starter policy replay policy.yaml --query "AssentAgent='fixer' AND StartTime > '2026-01-01T00:00:00Z'"
  starter policy replay policy.yaml fix-1 history.json -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			const hint = "see: starter policy replay --help"
			switch {
			case len(args) == 0:
				return exit.Usagef(hint, "the POLICY is missing")
			case len(args) == 1 && f.query == "":
				return exit.Usagef(hint, "whose calls? name a --query, IDs or files")
			case f.limit < 1:
				return exit.Usagef(hint, "--limit is %d; at least 1", f.limit)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.replay(cmd.Context(), args[0], args[1:], f) },
	}
	cmd.Flags().StringVar(&f.query, "query", "", "visibility query, as temporal workflow list takes it")
	cmd.Flags().IntVar(&f.limit, "limit", 1000, "at most so many runs of the query")
	a.serverFlags(cmd)
	return cmd
}

// replayed is one recorded call and what the policy makes of it, as `policy replay -o json` prints it.
type replayed struct {
	WorkflowID string `json:"workflowId"`
	RunID      string `json:"runId"`
	EventID    int64  `json:"eventId"`
	CallID     string `json:"callId"`
	Tool       string `json:"tool"`
	Profile    string `json:"profile,omitempty"`

	Input    json.RawMessage      `json:"input,omitempty"`
	InputRef *blob.Ref            `json:"inputRef,omitempty"`
	Was      permission.Decision  `json:"was"`
	Now      *permission.Decision `json:"now,omitempty"`
	// Changed says that the verdict is another one.
	Changed bool `json:"changed"`
	// NotJudged says why there is no Now.
	NotJudged string `json:"notJudged,omitempty"`
}

// replaySummary is the last line of `policy replay -o json`.
type replaySummary struct {
	Runs      int `json:"runs"`
	Calls     int `json:"calls"`
	Changed   int `json:"changed"`
	NotJudged int `json:"notJudged"`
	// OtherLayer counts verdicts that stay and come from another layer or rule.
	OtherLayer int `json:"otherLayer"`
	// InGo counts recorded decisions by code, which no policy file holds.
	InGo int `json:"inGo"`
	// Changes counts changed verdicts, such as "allow → ask".
	Changes map[string]int `json:"changes"`
}

// replay prints the calls whose verdict changes, and a summary.
func (a *app) replay(ctx context.Context, policy string, sources []string, f replayFlags) error {
	file, err := config.Load(policy)
	if err != nil {
		return err
	}
	j := &replaying{file: file, chains: map[string]*permission.Chain{}}
	sum := replaySummary{Changes: map[string]int{}}
	seen := map[string]bool{}
	err = a.sources(ctx, sources, f, func(h verify.Run) error {
		r := verify.History(h.Events, verify.Options{})
		if seen[r.RunID] {
			return nil // a query and an argument may mean the same run
		}
		sum.Runs++
		seen[r.RunID] = r.RunID != ""
		for _, d := range verify.Decisions(h.Events, nil) {
			c := replayed{WorkflowID: r.WorkflowID, RunID: r.RunID, EventID: d.EventID, CallID: d.CallID, Tool: d.Facts.Name, Profile: d.Profile,
				Input: d.Input, InputRef: d.InputRef, Was: d.Decision}
			if err := j.judge(&c, d); err != nil {
				return err
			}
			sum.add(c)
			if err := a.replayedCall(c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(sum)
	}
	a.replaySummary(sum)
	return nil
}

// sources yields the histories that the arguments and the query mean.
func (a *app) sources(ctx context.Context, args []string, f replayFlags, each func(verify.Run) error) error {
	every := func(all []verify.Run) error {
		for _, h := range all {
			if err := each(h); err != nil {
				return err
			}
		}
		return nil
	}
	var s *connect.Server
	server := func() (err error) {
		if s == nil {
			s, err = a.connect(ctx)
		}
		return err
	}
	defer func() {
		if s != nil {
			s.Close()
		}
	}()
	for _, arg := range args {
		var all []verify.Run
		var err error
		if isFile(arg) {
			all, err = a.fileHistory(arg)
		} else {
			a.noFile(arg)
			if err = server(); err == nil {
				all, err = histories(ctx, s, arg, "")
			}
		}
		if err == nil {
			err = every(all)
		}
		if err != nil {
			return err
		}
	}
	if f.query == "" {
		return nil
	}
	if err := server(); err != nil {
		return err
	}
	var runs []*workflowpb.WorkflowExecutionInfo
	left, err := newFinder(s).list(ctx, f.query, f.limit, func(w *workflowpb.WorkflowExecutionInfo) { runs = append(runs, w) })
	if err != nil {
		return err
	}
	for _, w := range runs {
		all, err := histories(ctx, s, w.GetExecution().GetWorkflowId(), w.GetExecution().GetRunId())
		if err == nil {
			err = every(all)
		}
		if err != nil {
			return err
		}
	}
	if left > 0 {
		a.note("%s of the query; see them with --limit", count(left, "more run"))
	}
	return nil
}

// replaying judges recorded calls under one policy.
type replaying struct {
	file   *config.File
	chains map[string]*permission.Chain
}

// judge says what the policy makes of a recorded call, or why it cannot be asked.
func (j *replaying) judge(c *replayed, d verify.Decided) error {
	known := true
	if d.Profile != "" {
		_, err := j.file.Profile(d.Profile)
		known = err == nil
	}
	switch {
	case d.Decision.DecidedBy == permission.ByInvalid:
		c.NotJudged = "its arguments did not fit the tool"
	case !d.Known:
		c.NotJudged = "its history says no more of the tool than its name"
	case !known:
		c.NotJudged = fmt.Sprintf("the policy has no profile %q", d.Profile)
	case d.InputRef != nil:
		c.NotJudged = "its arguments are in the blob store"
	case d.Input == nil:
		c.NotJudged = "its history does not have the arguments that it asked for"
	}
	if c.NotJudged != "" {
		return nil
	}
	chain, err := j.chain(d)
	if err != nil {
		c.NotJudged = "the rules of its agent's own input cannot be used: " + err.Error()
		return nil
	}
	f := d.Facts
	now := permission.Explain(chain, tool.Info{Name: f.Name, Risk: f.Risk, NeedsApproval: f.NeedsApproval, Idempotent: f.Idempotent,
		Concurrent: f.Concurrent, Timeout: f.Timeout, Remote: f.Remote}, d.Input)
	c.Now, c.Changed = &now, now.Verdict != d.Decision.Verdict
	return nil
}

// chain is the one under which a call is judged: it depends on the profile and on what its run brought along.
func (j *replaying) chain(d verify.Decided) (*permission.Chain, error) {
	key, err := json.Marshal([]any{d.Profile, d.Tighten, d.Vetted, d.Isolation, d.Parents})
	if err != nil {
		return nil, err
	}
	if c := j.chains[string(key)]; c != nil {
		return c, nil
	}
	spec := permission.Spec{Engine: j.file.Engine, RunVetted: d.Vetted, Readonly: d.Isolation == string(worktree.Readonly)}
	if d.Profile != "" {
		profile, err := j.file.Profile(d.Profile)
		if err != nil {
			return nil, err
		}
		spec.Profile = profile.Permissions
		if spec.Parent, err = config.ParentLayer(j.file.Profile, d.Parents); err != nil {
			return nil, err
		}
	}
	if t := d.Tighten; t != nil {
		spec.AgentDeny, spec.AgentAsk = t.Deny, t.Ask
	}
	c, err := permission.Compile(spec)
	if err == nil {
		j.chains[string(key)] = c
	}
	return c, err
}

// inGo reports a decision that code made and no policy file holds. A vetted line is a hook that explains its segments.
func inGo(d permission.Decision) bool {
	return d.Modified || d.DecidedBy == permission.ByHook && len(d.Segments) == 0 ||
		slices.Contains([]permission.Decider{permission.ByCanUseTool, permission.ByGuard, permission.ByListener}, d.DecidedBy)
}

func (s *replaySummary) add(c replayed) {
	s.Calls++
	if inGo(c.Was) {
		s.InGo++
	}
	switch {
	case c.Now == nil:
		s.NotJudged++
	case c.Changed:
		s.Changed++
		s.Changes[c.Was.Verdict.String()+" → "+c.Now.Verdict.String()]++
	case c.Was.DecidedBy != c.Now.DecidedBy || fmt.Sprint(c.Was.Rule) != fmt.Sprint(c.Now.Rule):
		s.OtherLayer++
	}
}
