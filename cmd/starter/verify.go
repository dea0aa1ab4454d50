package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/connect"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/verify"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	run, grantKey, policy string
	verbose               bool
}

func (a *app) verifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify ID|FILE",
		Short: "Prove from history that every tool call was permitted",
		Long: `Prove from history alone that every tool call of an agent, or of a workflow behind the guard, was permitted: by a recorded
decision or an admitted answer, with the arguments, contract, policy and run that were decided on, once, in time, and
not after it was revoked. Needs no worker.

FILE is a history in JSON: of temporal workflow show -o json, a download of the Temporal UI, gzip or not; - is standard
input. An ID is read from the server, with all runs it was continued or reset from, and what each took over is held against
the run before. Of one run alone, in a FILE or by --run, what it took over is taken on trust, and the report says so. With
--grant-key the signatures of grants are verified too, with --policy those of answers. Findings make the exit code 1.`,
		Example: `  starter verify fix-1 --verbose
  temporal workflow show -w fix-1 -o json | starter verify - --grant-key grant.key -o json`,
		GroupID: groupAgents,
		Args:    oneArg("the ID of a workflow, or the FILE of a history,"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.verify(cmd.Context(), args[0], f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.run, "run", "", "verify this run alone; the argument is then an ID")
	flags.StringVar(&f.grantKey, "grant-key", "", "key file of the workers (worker.grantKeyFile): verifies the signatures of grants")
	flags.StringVar(&f.policy, "policy", "", "policy file whose engine.keys verify signed answers")
	flags.BoolVar(&f.verbose, "verbose", false, "list each call, and what permitted it")
	a.serverFlags(cmd)
	return cmd
}

func (a *app) verify(ctx context.Context, what string, f verifyFlags) error {
	o, err := a.verifyOptions(f)
	if err != nil {
		return err
	}
	var all []verify.Run
	var s *connect.Server
	if f.run == "" && isFile(what) {
		all, err = a.fileHistory(what)
	} else {
		if f.run == "" {
			a.noFile(what)
		}
		if s, err = a.connect(ctx); err != nil {
			return err
		}
		defer s.Close()
		all, err = histories(ctx, s, what, f.run)
	}
	if err != nil {
		return err
	}
	return a.verified(verify.Chain(all, o), f.verbose)
}

// verifyOptions reads the keys that the flags name.
func (a *app) verifyOptions(f verifyFlags) (verify.Options, error) {
	var o verify.Options
	if f.grantKey != "" {
		keys, err := workerproc.GrantKeys(f.grantKey)
		if err != nil {
			return o, err
		}
		if o.Keys, err = protocol.NewKeyring(keys...); err != nil {
			return o, err
		}
		// Grants bind the namespace, which no event names.
		server, err := connect.Options(a.settings)
		if err != nil {
			return o, err
		}
		o.Namespace = server.Namespace
	}
	if f.policy != "" {
		file, err := config.Load(f.policy)
		if err != nil {
			return o, err
		}
		o.Principals = map[string]ed25519.PublicKey(file.Keys)
		if len(o.Principals) == 0 {
			return o, exit.Usagef("it verifies signed answers, and needs engine.keys", "%s names no keys", f.policy)
		}
	}
	return o, nil
}

// isFile reports whether an argument names a file and not a workflow.
func isFile(arg string) bool {
	if arg == "-" {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && !info.IsDir()
}

// noFile says of what looks like a file and is none that it is taken for a workflow, before a server is asked about it.
func (a *app) noFile(arg string) {
	if ext := filepath.Ext(arg); ext == ".json" || ext == ".gz" || strings.ContainsRune(arg, filepath.Separator) {
		a.note("there is no file %s; it is taken for the ID of a workflow", oneLine(arg, mostLine))
	}
}

// fileHistory reads one history from a file or from standard input.
func (a *app) fileHistory(path string) ([]verify.Run, error) {
	in := a.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, exit.Usagef("", "read history: %w", err)
		}
		defer f.Close()
		in = f
	}
	events, err := verify.Read(in)
	var cause *fs.PathError
	var bad *verify.ReadError
	switch {
	case errors.As(err, &cause):
		return nil, fmt.Errorf("read history %q: %w", path, err)
	case errors.As(err, &bad):
		return nil, exit.Usagef("save one with: temporal workflow show -w ID -o json > FILE", "%s: %w", path, err)
	}
	return []verify.Run{{Events: events}}, err
}

// verified prints the reports, the oldest run first.
func (a *app) verified(reports []verify.Report, verbose bool) error {
	findings, calls, gated := 0, 0, 0
	for _, r := range reports {
		findings += len(r.Findings)
		calls += len(r.Calls)
		if r.State == verify.Gated {
			gated++
		}
		if a.json() {
			if err := a.printJSON(r); err != nil {
				return err
			}
			continue
		}
		a.report(r, verbose)
	}
	code := exit.OK
	if findings > 0 {
		code = exit.Failed
	}
	if a.json() {
		return exit.Code(code)
	}
	switch {
	case findings > 0:
		a.printf("%s in %s\n", a.style.red(count(findings, "finding")), count(len(reports), "run"))
	case gated == 0:
		a.printf("nothing to verify\n")
	default:
		a.printf("%s: %s of %s, each permitted\n", a.style.green("ok"), count(calls, "call"), count(gated, "run"))
	}
	return exit.Code(code)
}

func (a *app) report(r verify.Report, verbose bool) {
	a.printf("%s   run %s   %s   %s\n", a.style.bold(oneLine(r.WorkflowID, mostLine)), oneLine(r.RunID, mostLine), oneLine(r.WorkflowType, mostLine), stateText(r))
	for _, c := range r.Calls {
		if verbose {
			a.printf("  %s\n", verifiedCall(c))
		}
	}
	for _, f := range r.Findings {
		about := ""
		if f.CallID != "" || f.Tool != "" {
			about = strings.TrimSpace(oneLine(f.CallID, mostLine)+" "+oneLine(f.Tool, mostLine)) + ": "
		}
		a.printf("  %s   event %d   %s%s\n", a.style.red(string(f.Kind)), f.EventID, about, oneLine(f.Why, mostShown))
	}
	for _, u := range r.Unchecked {
		a.printf("  %s   %s\n", a.style.dim("not checked"), oneLine(u, mostShown))
	}
}

// stateText says what a history is, and how far it goes.
func stateText(r verify.Report) string {
	switch {
	case r.State == verify.Ungated:
		return "not gated: it began while its worker was losing the guard, and says so"
	case r.State == verify.Foreign:
		return "not gated: it began before the guard, or has nothing to do with Assent"
	case r.Ended == "":
		return fmt.Sprintf("%s, and goes on", count(r.Events, "event"))
	}
	return count(r.Events, "event") + ", " + r.Ended
}

// verifiedCall says in a line what permitted a call.
func verifiedCall(c verify.Call) string {
	parts := []string{pad(c.CallID, oneLine(c.CallID, mostLine), 8), fmt.Sprintf("event %-4d", c.EventID), oneLine(c.Tool, mostLine)}
	switch {
	case c.DecisionID == 0:
		parts = append(parts, "not decided")
	case c.Verdict == permission.Ask && c.AdmissionID == 0:
		parts = append(parts, fmt.Sprintf("asked by %s at event %d, not answered", c.DecidedBy, c.DecisionID))
	case c.Verdict == permission.Ask:
		by := "somebody"
		if c.By != "" {
			by = oneLine(c.By, mostLine)
		}
		if c.Signed {
			by += ", signed,"
		}
		what := "allowed"
		if c.Edited {
			what = "edited and allowed"
		}
		parts = append(parts, fmt.Sprintf("%s by %s at event %d: %s", what, by, c.AdmissionID, oneLine(c.Key, mostLine)))
	default:
		parts = append(parts, fmt.Sprintf("%s by %s at event %d", c.Verdict, c.DecidedBy, c.DecisionID))
	}
	if c.Refused {
		parts = append(parts, "refused by its worker")
	}
	return strings.Join(parts, "   ")
}
