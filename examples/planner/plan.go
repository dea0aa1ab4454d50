package main

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/workflows"
)

// Plan is an ordinary workflow: it gives each task to an agent, in a worktree of its own, and returns their patches side by
// side. Agents never spawn: a plan is code.
func Plan(ctx workflow.Context, tasks []string) ([]Piece, error) {
	ctx = workflows.WithBounds(ctx, protocol.Bounds{Concurrent: 3})
	var children []*workflows.Child
	for _, task := range tasks {
		children = append(children, workflows.Spawn(ctx, protocol.AgentInput{AgentType: "writer", Prompt: task, Models: []string{"scripted:" + task}}))
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
