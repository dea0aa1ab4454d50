package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/converter"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/garbage"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/storage"
)

// blobFlags are the flags of blobs and blobs prune.
type blobFlags struct {
	storeFlags
	usedBy     bool
	olderThan  time.Duration
	dryRun     bool
	all        bool
	namespaces []string
	runs       string
}

func (a *app) blobsCommand() *cobra.Command {
	var f blobFlags
	cmd := &cobra.Command{
		Use:   "blobs",
		Short: "List what is in the blob store, and delete what no run needs",
		Long: `List the blobs of the worker's store, the oldest first: hash, size, and how long ago they were last stored. With --used-by
the server is asked which runs need them: open ones, and those that closed in the last 30 days (--older-than).`,
		Example: "  starter blobs --config assent.yaml\n  starter blobs prune --older-than 30d",
		GroupID: groupAgents,
		Args:    workerproc.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.blobs(cmd.Context(), f) },
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.usedBy, "used-by", false, "ask the server which runs need them")
	f.olderThan = defaultAge
	cmd.Flags().Var((*age)(&f.olderThan), "older-than", "with --used-by: ask runs that closed so long ago, too")
	a.sourceFlags(cmd, &f)
	cmd.AddCommand(a.pruneCommand())
	return cmd
}

const (
	day        = 24 * time.Hour
	defaultAge = 30 * day
)

// age is a duration as a flag, in days too, as ages are shown.
type age time.Duration

func (a *age) Set(text string) error {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= math.MaxInt64/int(day) {
			*a = age(time.Duration(n) * day)
			return nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("want an age such as 30d or 12h")
	}
	*a = age(d)
	return nil
}

func (a *age) String() string {
	if d := time.Duration(*a); d%day != 0 || d == 0 {
		return d.String()
	}
	return strconv.Itoa(int(time.Duration(*a)/day)) + "d"
}

func (*age) Type() string { return "age" }

// sourceFlags say whom to ask.
func (a *app) sourceFlags(cmd *cobra.Command, f *blobFlags) {
	cmd.Flags().StringSliceVar(&f.namespaces, "also", nil, "another namespace whose runs use the store; may be repeated")
	cmd.Flags().StringVar(&f.runs, "runs", "", "ask only runs that match this visibility query, because no other uses the store")
	a.serverFlags(cmd)
}

// blobRow is one blob as `blobs -o json` prints it.
type blobRow struct {
	blob.Ref
	// PutAt is when the bytes were last stored.
	PutAt time.Time `json:"putAt"`
	// UsedBy is absent if nobody was asked.
	UsedBy *[]garbage.Run `json:"usedBy,omitempty"`
	// Deleted is set by prune.
	Deleted *bool `json:"deleted,omitempty"`
}

func (a *app) blobs(ctx context.Context, f blobFlags) error {
	store, err := f.open()
	if err != nil {
		return err
	}
	report := &garbage.Report{}
	if f.usedBy {
		report, _, err = a.look(ctx, store, f)
	} else {
		report.Entries, err = garbage.Entries(ctx, store)
	}
	if err != nil {
		return err
	}
	var total int64
	w := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	if !a.json() && len(report.Entries) > 0 {
		fmt.Fprint(w, "BLOB\tSIZE\tAGE")
		if f.usedBy {
			fmt.Fprint(w, "\tUSED BY")
		}
		fmt.Fprintln(w)
	}
	for _, e := range report.Entries {
		total += e.Ref.Size
		row := blobRow{Ref: e.Ref, PutAt: e.Time}
		if f.usedBy {
			runs := append([]garbage.Run{}, report.UsedBy(e.Ref)...)
			row.UsedBy = &runs
		}
		if a.json() {
			if err := a.printJSON(row); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s", e.Ref.SHA256, bytesText(e.Ref.Size), span(time.Since(e.Time)))
		if f.usedBy {
			fmt.Fprintf(w, "\t%s", users(*row.UsedBy))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // the writer below has the error
	a.note("%s in store %s, %s", count(len(report.Entries), "blob"), store.ID(), bytesText(total))
	return nil
}

// users names the runs that need a blob in a few words.
func users(runs []garbage.Run) string {
	switch len(runs) {
	case 0:
		return "nobody"
	case 1:
		return oneLine(runs[0].WorkflowID, mostLine)
	}
	return fmt.Sprintf("%s and %d more", oneLine(runs[0].WorkflowID, mostLine), len(runs)-1)
}

// look asks every namespace that is named what it needs of the store, and returns their names too.
func (a *app) look(ctx context.Context, store *blob.Dir, f blobFlags) (*garbage.Report, []string, error) {
	driver, err := storage.NewDriver(store, "")
	if err != nil {
		return nil, nil, err
	}
	o := garbage.Options{Since: time.Now().Add(-f.olderThan), Drivers: []converter.StorageDriver{driver}}
	first, err := a.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer first.Close()
	o.Sources = append(o.Sources, garbage.Source{Client: first.Client, Namespace: first.Namespace, Query: f.runs})
	names := []string{first.Namespace}
	for _, name := range f.namespaces {
		if slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
		other, err := connect.Dial(ctx, connect.Settings{Address: first.Address, Namespace: name, Alone: a.settings.Alone})
		if err != nil {
			return nil, nil, err
		}
		defer other.Close()
		o.Sources = append(o.Sources, garbage.Source{Client: other.Client, Namespace: name, Query: f.runs})
	}
	report, err := garbage.Look(ctx, store, o)
	if err != nil {
		return nil, nil, exit.WithHint(fmt.Errorf("it is not known which blobs are needed: %w", err),
			"nothing was deleted; runs that cannot use this store may be left out with --runs QUERY")
	}
	return report, names, nil
}

// bytesText is a size for people.
func bytesText(n int64) string {
	const unit = 1 << 10
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, suffix := float64(n)/unit, "KiB"
	for _, next := range []string{"MiB", "GiB", "TiB"} {
		if value < unit {
			break
		}
		value, suffix = value/unit, next
	}
	return fmt.Sprintf("%.1f %s", value, suffix)
}
