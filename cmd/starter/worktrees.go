package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/worktree/git"
)

// treeFlags say where the worktrees of a worker are, and what is wanted of them.
type treeFlags struct {
	config, root string
	all, running bool
}

func (f *treeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "the worker's configuration file, for the folder of its worktrees")
	flags.StringVar(&f.root, "root", "", "folder of the worktrees")
}

// open opens the root that the flags mean. It makes none where there is none.
func (f *treeFlags) open() (*git.Driver, error) {
	dir, err := f.dir()
	if err != nil {
		return nil, err
	}
	d, err := git.Open(dir)
	if errors.Is(err, git.ErrNoRoot) {
		return nil, exit.Failf("run this where the worker is, or name its folder with --config FILE or --root DIR", "no worktrees at %s", dir)
	}
	return d, err
}

// openToRemove opens it with the git program of the configuration, or the one on the PATH: work in trees that were made with
// one is read by one.
func (f *treeFlags) openToRemove() (*git.Driver, error) {
	d, err := f.open()
	if err != nil {
		return nil, err
	}
	if f.config != "" {
		file, err := config.Load(f.config)
		if err != nil {
			return nil, err
		}
		if w := file.Worker.Worktrees; w.Git != "" {
			return d, d.UseGit(w.Git, w.Filters)
		}
	}
	if program, err := exec.LookPath("git"); err == nil && filepath.IsAbs(program) {
		// One that will not do is as none: the trees that need it are kept.
		_ = d.UseGit(program, nil)
	}
	return d, nil
}

func (f *treeFlags) dir() (string, error) {
	switch {
	case f.config != "" && f.root != "":
		return "", exit.Usagef("see: starter worktrees --help", "--config and --root exclude each other")
	case f.root != "":
		return f.root, nil
	case f.config != "":
		file, err := config.Load(f.config)
		if err != nil {
			return "", err
		}
		return workerproc.TreesDir(file)
	}
	return workerproc.TreesDir(nil)
}

func (a *app) worktreesCommand() *cobra.Command {
	cmd := a.treesCommand("worktrees", "List the worktrees of agents on this machine, and remove one",
		"  starter worktrees --config assent.yaml\n  cd \"$(starter worktrees path fix-1)\"\n  starter worktrees dispose fix-1", nil)
	cmd.GroupID = groupAgents
	cmd.AddCommand(
		a.treesCommand("list", "List the worktrees on this machine, as worktrees alone does", "  starter worktrees list --all -o json", nil),
		a.treesCommand("retained", "List the worktrees of failed agents that are kept for inspection", "  starter worktrees retained",
			func(h git.Held) bool { return h.State == git.Retained }),
		a.treeWhyCommand(), a.treePathCommand(), a.treeDisposeCommand())
	return cmd
}

// treesCommand lists the trees that want takes; nil takes all.
func (a *app) treesCommand(use, short, example string, want func(git.Held) bool) *cobra.Command {
	var f treeFlags
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long: short + `. No server is needed: the worker's folder is read where it is, the default one, that of --config FILE,
or --root DIR, and nothing in it is changed.

States: making; ready, whose work nobody has collected yet; collected; retained, of a failed agent, to be looked at; disposing.
With --all those that are gone are listed too. With --running the server is asked what became of each agent.`,
		Example: example,
		Args:    workerproc.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.worktrees(cmd.Context(), f, want)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "those that are gone, too")
	cmd.Flags().BoolVar(&f.running, "running", false, "ask the server whether the agents have ended")
	a.serverFlags(cmd)
	return cmd
}

// treeRow is one tree as `worktrees -o json` prints it.
type treeRow struct {
	ID string `json:"id"`
	// State is one of git's names, Since when it began.
	State string    `json:"state"`
	Since time.Time `json:"since"`
	Why   string    `json:"why,omitempty"`
	Path  string    `json:"path"`
	// Repo, Ref and Base are the repository's name, the revision as asked and the commit.
	Repo string `json:"repo,omitempty"`
	Ref  string `json:"ref,omitempty"`
	Base string `json:"base,omitempty"`
	// Result is the tree id of the collected result.
	Result     string    `json:"result,omitempty"`
	Namespace  string    `json:"namespace,omitempty"`
	WorkflowID string    `json:"workflowId,omitempty"`
	RunID      string    `json:"runId,omitempty"`
	Attempt    int       `json:"attempt"`
	Created    time.Time `json:"created"`
	git.Usage
	Busy bool `json:"busy,omitempty"`
	// Agent is running, how it ended, or unknown; absent if the server was not asked.
	Agent string `json:"agent,omitempty"`
}

func treeRowOf(h git.Held) treeRow {
	id, run := workflowOf(h)
	return treeRow{ID: h.ID, State: h.State, Since: h.Since, Why: h.Why, Path: h.Path, Repo: h.Resolved.Repo, Ref: h.Resolved.Ref,
		Base: h.Resolved.Commit, Result: h.Collected, Namespace: h.Identity.Namespace, WorkflowID: id, RunID: run,
		Attempt: h.Identity.Attempt, Created: h.Created, Busy: h.Busy}
}

// workflowOf is the workflow id and the run that a tree was made for; the activity puts both into the identity.
func workflowOf(h git.Held) (id, run string) {
	id = h.Identity.WorkflowID
	if i := strings.LastIndexByte(id, '/'); i >= 0 {
		return id[:i], id[i+1:]
	}
	return id, ""
}

// mostMeasured bounds the files that are counted of one tree, so that a listing stays quick.
const mostMeasured = 200_000

func (a *app) worktrees(ctx context.Context, f treeFlags, want func(git.Held) bool) error {
	d, err := f.open()
	if err != nil {
		return err
	}
	held, err := d.Inventory(ctx)
	if err != nil {
		return err
	}
	held = slices.DeleteFunc(held, func(h git.Held) bool {
		return h.State == git.Gone && !f.all || want != nil && !want(h)
	})
	var fates *fates
	if f.running {
		if fates, err = a.askFates(ctx); err != nil {
			return err
		}
		defer fates.close()
	}
	rows := make([]treeRow, 0, len(held))
	for _, h := range held {
		r := treeRowOf(h)
		if r.Usage, err = d.Measure(ctx, h.ID, mostMeasured); err != nil {
			return err
		}
		if f.running {
			if r.Agent, err = fates.word(ctx, h); err != nil {
				return err
			}
		}
		rows = append(rows, r)
	}
	if a.json() {
		for _, r := range rows {
			if err := a.printJSON(r); err != nil {
				return err
			}
		}
		return nil
	}
	a.treeRows(rows, f.running)
	var total int64
	for _, r := range rows {
		total += r.Bytes
	}
	a.note("%s below %s, %s", count(len(rows), "worktree"), d.Root(), bytesText(total))
	return nil
}

func (a *app) treeRows(rows []treeRow, running bool) {
	if len(rows) == 0 {
		return
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	fmt.Fprint(w, "WORKTREE\tSTATE\tFOR\tREPO\tBASE\tSIZE\tOF AGENT")
	if running {
		fmt.Fprint(w, "\tWHICH IS")
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		size := bytesText(r.Bytes)
		if r.Partial {
			size = "≥ " + size
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.12s\t%s\t%s", r.ID, r.State, sinceText(r.Since), oneLine(r.Repo, mostLine), r.Base, size, oneLine(r.WorkflowID, mostLine))
		if running {
			fmt.Fprintf(w, "\t%s", r.Agent)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // the writer below has the error
}

// sinceText is how long ago something was; a record that cannot be read does not say.
func sinceText(at time.Time) string {
	if at.IsZero() {
		return "?"
	}
	return span(time.Since(at))
}

// pick is the tree that an operator means: by its id, by the agent's if that has one tree here, or by how its id begins.
func pick(ctx context.Context, d *git.Driver, word string) (git.Held, error) {
	all, err := d.Inventory(ctx)
	if err != nil {
		return git.Held{}, err
	}
	ways := []func(git.Held) bool{
		func(h git.Held) bool { return h.ID == word },
		func(h git.Held) bool { id, _ := workflowOf(h); return id == word && h.State != git.Gone },
		func(h git.Held) bool { return strings.HasPrefix(h.ID, word) && h.State != git.Gone },
		func(h git.Held) bool { id, _ := workflowOf(h); return id == word },
	}
	for _, matches := range ways {
		var found []git.Held
		for _, h := range all {
			if matches(h) {
				found = append(found, h)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			return git.Held{}, exit.Usagef("name one of them by its id", "%q means %d worktrees: %s", word, len(found), idsOf(found))
		}
	}
	return git.Held{}, exit.Failf("see those there are with: starter worktrees", "no worktree %q below %s", word, d.Root())
}

// idsOf lists the first few ids.
func idsOf(found []git.Held) string {
	const most = 8
	var ids []string
	for i, h := range found {
		if i == most {
			ids = append(ids, fmt.Sprintf("and %d more", len(found)-most))
			break
		}
		ids = append(ids, h.ID)
	}
	return strings.Join(ids, ", ")
}
