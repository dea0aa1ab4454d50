package demo

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/rogpeppe/go-internal/txtar"
)

//go:embed sample.txtar
var sampleFiles []byte

//go:embed script.yaml
var sampleScript []byte

const (
	sampleName   = "slug"
	sampleBranch = "main"
	// SampleTask is the prompt of an agent on the sample.
	SampleTask = "The test of this package fails. Find out why and mend it."
)

// sampleTime makes the sample's commit the same on every machine.
var sampleTime = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)

// writeSample makes the sample repository with one commit, without the git program.
func writeSample(dir string) error {
	repo, err := gogit.PlainInitWithOptions(dir, &gogit.PlainInitOptions{
		InitOptions: gogit.InitOptions{DefaultBranch: plumbing.NewBranchReferenceName(sampleBranch)},
	})
	if err != nil {
		return fmt.Errorf("make the sample repository %q: %w", dir, err)
	}
	tree, err := repo.Worktree()
	if err != nil {
		return fmt.Errorf("make the sample repository %q: %w", dir, err)
	}
	for _, f := range txtar.Parse(sampleFiles).Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o644); err != nil {
			return fmt.Errorf("make the sample repository: %w", err)
		}
		if _, err := tree.Add(f.Name); err != nil {
			return fmt.Errorf("make the sample repository: add %q: %w", f.Name, err)
		}
	}
	who := &object.Signature{Name: "Assent demo", Email: "demo@example.com", When: sampleTime}
	if _, err := tree.Commit("Add slug.Make\n", &gogit.CommitOptions{Author: who, Committer: who}); err != nil {
		return fmt.Errorf("make the sample repository: commit: %w", err)
	}
	return nil
}
