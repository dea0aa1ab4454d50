package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/model/scripted"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git"
)

const (
	// Profile is the profile of the demo's agent.
	Profile = "demo"
	// scriptName is the script in `scripted:demo`.
	scriptName = "demo"
	provider   = "scripted"
)

// Plan says what to demonstrate. The zero value is the sample, on a server of the demo's own.
type Plan struct {
	// Repo is the path of a repository; empty means the sample. Ref is a revision of it; empty means HEAD.
	Repo, Ref string
	// Script is the path of a script; empty means the sample's, which fits the sample only.
	Script string
	// Task is the prompt; empty means one that fits.
	Task string
	// Model is `provider:name`; empty means the script. BaseURL is the address of a server that speaks the provider's API, and
	// KeyEnv names the variable that holds its key; both are for a real model.
	Model, BaseURL, KeyEnv string
	// Address and Namespace name a server of others; an empty address means one of the demo's own.
	Address, Namespace string
	// Keep leaves everything in place when the agent has ended.
	Keep bool
}

// New checks a plan and writes the folder of a new demo. Errors that a change of the plan mends are *fault.ConfigError.
// Nothing is left after an error.
func New(ctx context.Context, p Plan) (*Demo, error) {
	asked, err := p.asked()
	if err != nil {
		return nil, err
	}
	script, err := p.check(asked)
	if err != nil {
		return nil, err
	}
	home, err := Home()
	if err != nil {
		return nil, err
	}
	d := &Demo{ID: newID(), Address: p.Address, Namespace: p.Namespace, Queue: protocol.DefaultTaskQueue, Ref: p.Ref, Task: p.Task,
		Keep: p.Keep, Sample: p.Repo == "", Model: asked, Began: time.Now().UTC().Truncate(time.Second)}
	d.dir = filepath.Join(home, d.ID)
	if d.Namespace == "" {
		d.Namespace = connect.DefaultNamespace
	}
	if d.Address != "" {
		// Workers of others on that server must not get the agent, nor the demo's worker theirs.
		d.Queue = d.ID
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return nil, exit.Failf("set HOME or XDG_STATE_HOME to a folder that can be written", "make the folder of a demo: %w", err)
	}
	if err := d.write(ctx, p, script); err != nil {
		return nil, errors.Join(err, d.Remove())
	}
	return d, nil
}

// check looks at everything that needs no folder, and returns the text of the script, or nil if a real model is asked.
func (p *Plan) check(asked Asked) ([]byte, error) {
	real := asked != (Asked{})
	switch {
	case p.Repo == "" && p.Ref != "":
		return nil, exit.Usagef("name it with --repo PATH", "--ref is for a repository of yours")
	case p.Namespace != "" && p.Address == "":
		return nil, exit.Usagef("name it with --address HOST:PORT", "--namespace is for a server of yours")
	case p.Repo != "" && p.Script == "" && !real:
		return nil, exit.Usagef("the script says what the agent does, turn by turn: --script FILE; or ask a real model: --model", "--repo needs a script")
	case p.Repo != "" && p.Task == "" && real:
		return nil, exit.Usagef("say what is to be done: --task TEXT", "a real model needs a task")
	case p.Repo != "" && real:
		return nil, nil
	}
	if p.Script == "" {
		if _, err := exec.LookPath("go"); err != nil {
			return nil, exit.Failf("the sample's agent runs `go test`: put Go on PATH, or show your own with --repo and --script", "no `go` on PATH")
		}
		if p.Task == "" {
			p.Task = SampleTask
		}
		if real {
			return nil, nil
		}
		return sampleScript, nil
	}
	text, err := os.ReadFile(p.Script)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err // the name is said once
		}
		return nil, &fault.ConfigError{Key: "--script", Msg: fmt.Sprintf("%q cannot be read", p.Script), Cause: err}
	}
	if _, err := scripted.Parse(p.Script, text); err != nil {
		return nil, err
	}
	if p.Task == "" {
		p.Task = "Do what the script " + filepath.Base(p.Script) + " says."
	}
	return text, nil
}

// write fills the folder, and looks at the repository through the driver that the worker will use.
func (d *Demo) write(ctx context.Context, p Plan, script []byte) error {
	var err error
	if d.Sample {
		d.Repo = d.path(sampleDir)
		err = writeSample(d.Repo)
	} else {
		d.Repo, err = filepath.Abs(p.Repo)
	}
	if err != nil {
		return err
	}
	if err := d.checkRepo(ctx); err != nil {
		return err
	}
	if script != nil {
		if err := os.WriteFile(d.path(scriptFile), script, 0o600); err != nil {
			return fmt.Errorf("write the script of a demo: %w", err)
		}
	}
	if err := workerproc.NewGrantKey(d.path(keyFile)); err != nil {
		return err
	}
	if err := os.WriteFile(d.path(configFile), d.config(), 0o600); err != nil {
		return fmt.Errorf("write the configuration of a demo: %w", err)
	}
	return d.save()
}

// repoName is the name under which the worker knows the repository.
func (d *Demo) repoName() string { return filepath.Base(d.Repo) }

// checkRepo says before anything is started that a repository or revision cannot be used.
func (d *Demo) checkRepo(ctx context.Context) error {
	trees, err := git.New(git.Config{Repos: map[string]string{d.repoName(): d.Repo}, Root: d.path(treesDir)})
	if err == nil {
		defer trees.Close()
		_, err = trees.Resolve(ctx, d.isolation())
	}
	var c *fault.ConfigError
	if !errors.As(err, &c) {
		return err
	}
	// The user wrote flags, not the keys of a configuration file.
	said := *c
	if said.Key == "isolation.ref" {
		said.Key = "--ref"
		if d.Ref == "" {
			said.Key = "--repo"
		}
	} else {
		said.Key = "--repo"
	}
	return &said
}

func (d *Demo) isolation() worktree.Isolation {
	return worktree.Isolation{Kind: worktree.Tree, Repo: d.repoName(), Ref: d.Ref}
}

// Input starts the demo's agent.
func (d *Demo) Input() protocol.AgentInput {
	iso := d.isolation()
	return protocol.AgentInput{Prompt: d.Task, AgentType: Profile, Isolation: &iso}
}
