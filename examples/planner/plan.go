package main

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/workflows"
)

// Plan is an ordinary workflow: it gives each task to an agent, in a worktree of its own, and returns their patches side by
// side. All of them together may spend a dollar. Agents never spawn: a plan is code.
func Plan(ctx workflow.Context, tasks []string) ([]Piece, error) {
	ctx = workflows.WithBudget(workflows.WithBounds(ctx, protocol.Bounds{Concurrent: 3}), 1)
	part := 1 / float64(len(tasks)) // of the dollar; without parts each agent would take all of it and the next one wait
	var children []*workflows.Child
	for _, task := range tasks {
		children = append(children, workflows.Spawn(ctx, protocol.AgentInput{AgentType: "writer", Prompt: task,
			Models: []string{"scripted:" + task}, BudgetUSD: &part}))
	}
	var pieces []Piece
	owner := map[string]string{}
	for i, child := range children {
		result, err := child.Get(ctx)
		if err != nil {
			return nil, err
		}
		piece := Piece{Task: tasks[i], Status: result.Status, Artifacts: result.Artifacts}
		for _, patch := range result.Artifacts {
			for _, file := range patch.Files {
				if first, taken := owner[file.Path]; taken {
					piece.Conflicts = append(piece.Conflicts, fmt.Sprintf("%s is changed by %s too", file.Path, first))
					continue
				}
				owner[file.Path] = tasks[i]
			}
		}
		pieces = append(pieces, piece)
	}
	return pieces, nil
}

// Piece is what one agent made. Nobody applies it.
type Piece struct {
	Task      string
	Status    protocol.Status
	Artifacts []protocol.Artifact
	Conflicts []string
}
