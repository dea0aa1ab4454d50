package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/internal/workerproc"
	"github.com/assent-dev/assent/tool"
)

func (a *app) toolsCommand() *cobra.Command {
	var f toolsFlags
	cmd := &cobra.Command{
		Use:   "tools [--profile P] [--server NAME]",
		Short: "List the tools that an agent of a profile would get",
		Long: `List the tools that an agent of a profile would get from a worker with this file: where each comes from, its risk, what the
policy says to it without looking at arguments, and the hashes of what it promises and of what it may do. MCP servers are
started for it and ended again; no Temporal server and no worker is asked.

Exit codes: 0 ok, 1 a server does not answer, 2 the file cannot be used.`,
		Example: "  starter tools --profile fixer\n  starter tools --server fs -o json\n  starter tools attest --profile fixer --write",
		GroupID: groupPolicy,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exit.Usagef("see: starter tools --help", "unknown command %q of starter tools", args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.tools(cmd.Context(), f) },
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.server, "server", "", "only the tools of this MCP server, listed by a profile or not")
	a.outputFlag(cmd)
	cmd.AddCommand(a.toolsAttestCommand(), a.toolsCheckCommand())
	return cmd
}

// toolsFlags are the flags of starter tools and its commands.
type toolsFlags struct{ config, profile, server string }

func (f *toolsFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.config, "config", workerproc.DefaultConfig, "configuration file of the worker")
	cmd.Flags().StringVar(&f.profile, "profile", "", "profile")
}

// load reads the file and the profiles that are meant, sorted by name.
func (f *toolsFlags) load() (*config.File, []config.Profile, error) {
	if f.config == "" {
		return nil, nil, exit.Usagef("a variable that is not set? Leave --config out if nothing is meant", "--config is empty")
	}
	if _, err := os.Stat(f.config); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, exit.Usagef("name another one with --config FILE", "no configuration file at %s", f.config)
	}
	file, err := config.Load(f.config)
	if err != nil {
		return nil, nil, err
	}
	if f.server != "" {
		if _, ok := file.MCP[f.server]; !ok {
			hint := "it configures no MCP server; its section is mcp"
			if len(file.MCP) > 0 {
				hint = "known are " + strings.Join(slices.Sorted(maps.Keys(file.MCP)), ", ")
			}
			return nil, nil, exit.Usagef(hint, "%s has no MCP server %q", f.config, f.server)
		}
	}
	if f.profile != "" {
		p, err := file.Profile(f.profile)
		return file, []config.Profile{p}, err
	}
	var all []config.Profile
	for _, name := range slices.Sorted(maps.Keys(file.Profiles)) {
		all = append(all, file.Profiles[name])
	}
	return file, all, nil
}

// offeredTool is a tool of a profile.
type offeredTool struct {
	Name string `json:"name"`
	// From is first-party, or the name of an MCP server.
	From string `json:"from"`
	// Listed is the name in the profile's list that stands for it.
	Listed string `json:"listed"`
	Risk   string `json:"risk"`
	// Raised says that the risk is a hint of the server; the file says what FileRisk says.
	Raised        bool   `json:"raised,omitempty"`
	FileRisk      string `json:"fileRisk,omitempty"`
	NeedsApproval bool   `json:"needsApproval"`
	outlook
	Contract    string          `json:"contract"`
	Authority   string          `json:"authority"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// refusedTool is a tool, or a whole entry of a profile's list, that no agent gets.
type refusedTool struct {
	Name string `json:"name"`
	From string `json:"from,omitempty"`
	Why  string `json:"why"`
	// LeftOut says that the file leaves it out by allow or deny.
	LeftOut bool `json:"leftOut,omitempty"`
}

// profileTools are the tools of one profile.
type profileTools struct {
	// Profile is empty for a server that no profile lists.
	Profile string        `json:"profile,omitempty"`
	Tools   []offeredTool `json:"tools"`
	Refused []refusedTool `json:"refused"`
	// ToolsetHash and AuthorityHash are of the whole list, Attestation says whether it is the one that was attested.
	ToolsetHash   string `json:"toolsetHash,omitempty"`
	AuthorityHash string `json:"authorityHash,omitempty"`
	Attestation   string `json:"attestation,omitempty"`

	set tool.Toolset
	// err is the first reason for which an agent of the profile would not start.
	err error
}

const firstParty = "first-party"

// bench is what the tools of profiles are taken from.
type bench struct {
	file    *config.File
	stock   []*tool.Def
	sets    map[string][]string
	servers *workerproc.MCP
}

// openBench starts the servers that are meant. Whoever opens it closes it.
func (a *app) openBench(ctx context.Context, file *config.File, profiles []config.Profile, server string) (*bench, error) {
	b := &bench{file: file}
	var err error
	if b.stock, b.sets, err = workerproc.Tools(file); err != nil {
		return nil, err
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(file.MCP)) {
		wanted := slices.ContainsFunc(profiles, func(p config.Profile) bool { return slices.Contains(p.Tools, name) })
		if name == server || server == "" && wanted {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return b, nil
	}
	if b.servers, err = workerproc.OpenMCP(file, nil, names...); err != nil {
		return nil, err
	}
	for _, s := range b.servers.Servers() {
		if unset := s.Unset(); len(unset) > 0 {
			a.note("warning: MCP server %q: passEnv names what is not set here: %s", s.Name(), strings.Join(unset, ", "))
		}
	}
	slow := time.AfterFunc(2*time.Second, func() { a.note("waiting for %s: %s", plural(len(names), "MCP server"), strings.Join(names, ", ")) })
	defer slow.Stop()
	err = b.servers.Start(ctx, b.stock)
	if ctx.Err() != nil {
		err = &exit.Error{Code: exit.Interrupted, Err: errors.New("interrupted; the MCP servers are ended")}
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) close() error {
	if b.servers == nil {
		return nil
	}
	return b.servers.Close()
}

func (b *bench) server(name string) *workerproc.Server {
	if b.servers == nil {
		return nil
	}
	for _, s := range b.servers.Servers() {
		if s.Name() == name {
			return s
		}
	}
	return nil
}

// of resolves a profile's list as the engine does when an agent starts.
func (b *bench) of(p config.Profile, only string) profileTools {
	out := profileTools{Profile: p.Name, Tools: []offeredTool{}, Refused: []refusedTool{}}
	policy := policyFor(b.file, p)
	var defs []*tool.Def
	add := func(listed, from string, d *tool.Def, conf *config.MCPServer) {
		defs = append(defs, d)
		out.Tools = append(out.Tools, describeTool(listed, from, d, conf, policy))
	}
	for _, listed := range p.Tools {
		_, isServer := b.file.MCP[listed]
		switch s := b.server(listed); {
		case only != "" && listed != only:
		case isServer && s.Err != nil:
			out.refuse(listed, listed, s.Err.Error(), b.servers.Located(s))
		case isServer:
			for _, d := range s.Tools {
				add(listed, listed, d, &s.Conf)
			}
			for _, r := range s.Refused() {
				out.Refused = append(out.Refused, refusedTool{Name: r.Name, From: listed, Why: r.Why, LeftOut: s.LeftOut(r.Name)})
			}
		default:
			for _, d := range b.members(listed, &out) {
				add(listed, firstParty, d, nil)
			}
		}
	}
	set, err := tool.ToolsetOf(defs...)
	if err != nil {
		out.refuse("the list", "", err.Error(), err)
		return out
	}
	slices.SortFunc(out.Tools, func(x, y offeredTool) int { return strings.Compare(x.Name, y.Name) })
	if out.set = set; only == "" && out.err == nil {
		out.ToolsetHash, out.AuthorityHash = set.Hash(), set.AuthorityHash()
		out.attested(p)
	}
	return out
}

// members are the first-party tools that a name of a list stands for.
func (b *bench) members(listed string, out *profileTools) []*tool.Def {
	names, ok := b.sets[listed]
	if !ok {
		names = []string{listed}
	}
	var defs []*tool.Def
	for _, name := range names {
		i := slices.IndexFunc(b.stock, func(d *tool.Def) bool { return d.Name() == name })
		if i < 0 {
			out.refuse(name, "", "no tool, toolset or MCP server of this file has the name",
				exit.Usagef("tools of your own worker are listed and attested in Go, by tool.Attest", "the stock worker has no tool %q", name))
			continue
		}
		defs = append(defs, b.stock[i])
	}
	return defs
}

func (p *profileTools) refuse(name, from, why string, err error) {
	p.Refused = append(p.Refused, refusedTool{Name: name, From: from, Why: why})
	if p.err == nil {
		p.err = err
	}
}

// attested compares with the profile's attestation.
func (p *profileTools) attested(of config.Profile) {
	if of.Attestation == nil {
		p.Attestation = "none"
		return
	}
	p.Attestation = "holds"
	if err := of.Attestation.Check(p.set); err != nil {
		p.Attestation, p.err = err.Error(), err
	}
}

func (a *app) tools(ctx context.Context, f toolsFlags) error {
	file, profiles, err := f.load()
	if err != nil {
		return err
	}
	b, err := a.openBench(ctx, file, profiles, f.server)
	if err != nil {
		return err
	}
	err = a.toolsOf(b, f, profiles)
	return errors.Join(err, b.close())
}

func (a *app) toolsOf(b *bench, f toolsFlags, profiles []config.Profile) error {
	var all []profileTools
	for _, p := range profiles {
		if f.server == "" || f.profile != "" || slices.Contains(p.Tools, f.server) {
			all = append(all, b.of(p, f.server))
		}
	}
	if f.server != "" && len(all) == 0 {
		// The engine's layer alone decides.
		all = append(all, b.of(config.Profile{Tools: []string{f.server}}, f.server))
	}
	code := exit.OK
	for i, p := range all {
		if b.dead() {
			code = exit.Failed
		}
		if a.json() {
			if err := a.printJSON(p); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			a.printf("\n")
		}
		if err := a.toolsTable(p, f); err != nil {
			return err
		}
	}
	return exit.Code(code)
}

// dead reports a server that does not answer.
func (b *bench) dead() bool {
	return b.servers != nil && slices.ContainsFunc(b.servers.Servers(), func(s *workerproc.Server) bool { return s.Err != nil })
}

func (a *app) toolsTable(p profileTools, f toolsFlags) error {
	head := "profile " + p.Profile
	if p.Profile == "" {
		head = "no profile lists " + f.server + "; the engine's rules alone"
	}
	a.printf("%s: %s\n", oneLine(head, mostLine), count(len(p.Tools), "tool"))
	if len(p.Tools) > 0 {
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "TOOL\tFROM\tRISK\tAPPROVAL\tPOLICY\tCONTRACT\tAUTHORITY\tWHY")
		for _, t := range p.Tools {
			approval := "-"
			if t.NeedsApproval {
				approval = "needed"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.12s\t%.12s\t%s\n", t.Name, t.From, t.riskText(), approval, t.Policy, t.Contract, t.Authority, oneLine(t.Why, mostLine))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	leftOut := 0
	for _, r := range p.Refused {
		if r.LeftOut {
			leftOut++
			continue
		}
		from := ""
		if r.From != "" && r.From != r.Name {
			from = " of " + r.From
		}
		var why []string
		for line := range strings.SplitSeq(strings.TrimRight(r.Why, "\n"), "\n") {
			why = append(why, oneLine(line, mostShown))
		}
		a.printf("refused: %s%s: %s\n", oneLine(r.Name, mostLine), from, strings.Join(why, "\n  "))
	}
	if leftOut > 0 {
		a.printf("left out by allow or deny: %s\n", count(leftOut, "tool"))
	}
	if p.ToolsetHash != "" {
		a.printf("toolset %.12s, authority %.12s, attestation: %s\n", p.ToolsetHash, p.AuthorityHash, oneLine(p.Attestation, mostShown))
	}
	return nil
}

func (t offeredTool) riskText() string {
	if t.Raised {
		return t.Risk + " (hint)"
	}
	return t.Risk
}

func plural(n int, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}
