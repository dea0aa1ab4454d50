package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// replayedCall prints a call: all of them as JSON, as text those that change or could not be judged.
func (a *app) replayedCall(c replayed) error {
	if a.json() {
		return a.printJSON(c)
	}
	where := strings.TrimSpace(oneLine(c.WorkflowID, mostLine) + " " + oneLine(c.CallID, mostLine))
	switch {
	case c.Now == nil:
		a.printf("not judged   %s   %s   %s\n  why     %s\n", where, oneLine(c.Tool, mostLine), callText(c.Input, c.InputRef), oneLine(c.NotJudged, mostShown))
	case c.Changed:
		a.printf("%s → %s   %s   %s   %s\n", a.verdict(c.Was.Verdict), a.verdict(c.Now.Verdict), where, oneLine(c.Tool, mostLine), callText(c.Input, c.InputRef))
		a.printf("  was     %s\n  now     %s\n", because(c.Was), because(*c.Now))
	}
	return nil
}

func (a *app) replaySummary(s replaySummary) {
	a.printf("%s of %s: ", count(s.Calls, "call"), count(s.Runs, "run"))
	switch s.Changed {
	case 0:
		a.printf("no verdict changes")
	case 1:
		a.printf("1 verdict changes")
	default:
		a.printf("%d verdicts change", s.Changed)
	}
	var parts []string
	for _, change := range slices.Sorted(maps.Keys(s.Changes)) {
		parts = append(parts, fmt.Sprintf("%d %s", s.Changes[change], change))
	}
	if len(parts) > 0 {
		a.printf(" (%s)", strings.Join(parts, ", "))
	}
	if s.OtherLayer > 0 {
		a.printf(", %d for another reason than before", s.OtherLayer)
	}
	if s.NotJudged > 0 {
		a.printf(", %d not judged", s.NotJudged)
	}
	a.printf("\n")
	if s.InGo > 0 {
		a.note("%s by hooks, listeners, guards or canUseTool in Go, which no policy file holds: they were not asked", count(s.InGo, "recorded decision"))
	}
}
