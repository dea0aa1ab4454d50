package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
)

func (a *app) modelsCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models that a worker's file offers",
		Long: `List the models that a worker's file offers: its providers with address and key, and each model with the size of its
context, its price, and the profiles that use it. No provider is asked and no key is shown; whether the key is there is.

Prices are USD for a million tokens: the file's, else those that this version knows, of the day that stands beside them.`,
		Example: "  starter models --config assent.yaml\n  starter models -o json",
		GroupID: groupAgents,
		Args:    workerproc.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return exit.Usagef("name another one with --config FILE", "no configuration file at %s", path)
			}
			f, err := config.Load(path)
			if err != nil {
				return err
			}
			return a.models(path, workerproc.Offers(f))
		},
	}
	cmd.Flags().StringVar(&path, "config", workerproc.DefaultConfig, "configuration file of the worker")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) models(path string, offers []workerproc.Provider) error {
	if a.json() {
		for _, p := range offers {
			if err := a.printJSON(p); err != nil {
				return err
			}
		}
		return nil
	}
	if len(offers) == 0 {
		a.note("%s configures no model provider; its section is models", path)
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROVIDER\tAPI\tADDRESS\tKEY\tMODELS")
	for _, p := range offers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", oneLine(p.Name, mostLine), p.API, dash(p.BaseURL), keyOf(p), whichOf(p))
	}
	fmt.Fprintln(w, "\nMODEL\tCONTEXT\tOUTPUT\tUSD IN\tCACHED\tOUT\tAS OF\tPROFILES")
	for _, p := range offers {
		for _, m := range p.Models {
			r := m.Price
			in, cached, out := "?", "?", "?"
			switch {
			case r.Free:
				in, cached, out = "free", "free", "free"
			case m.Known:
				in, cached, out = usd(r.Input), usd(r.CachedInput), usd(r.Output)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", oneLine(m.Name, mostLine), tokens(r.ContextWindow), tokens(r.MaxOutput),
				in, cached, out, dash(r.AsOf), dash(strings.Join(m.Profiles, ", ")))
		}
	}
	return w.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return oneLine(s, mostLine)
}

func keyOf(p workerproc.Provider) string {
	switch {
	case p.Key == "":
		return "none"
	case p.KeyProblem != "":
		return oneLine(p.Key, mostLine) + " (cannot be used)"
	}
	return oneLine(p.Key, mostLine)
}

func whichOf(p workerproc.Provider) string {
	if p.Any {
		return "any"
	}
	return strconv.Itoa(len(p.Models))
}

// tokens is a number of tokens, or a mark for one that is not known.
func tokens(n int64) string {
	if n == 0 {
		return "?"
	}
	return strconv.FormatInt(n, 10)
}

// usd is a price without the zeros that say nothing. A rate of zero is one that is not known.
func usd(rate float64) string {
	if rate == 0 {
		return "?"
	}
	return strconv.FormatFloat(rate, 'f', -1, 64)
}
