package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// frozen returns the tool that this worker serves under the facts with which an agent began: of the source that it was frozen
// from, or mounted here. Two sources may offer the same contract and mean something else. drift says why there is none.
// A source is asked again for what it did not offer when it was last asked, and if a call is about to run, once in a while:
// what its server changes meanwhile is then found before the next call.
func (e *Engine) frozen(ctx context.Context, f protocol.ToolFacts, running bool) (def *tool.Def, drift string) {
	if f.Source == "" {
		def, ok := e.cfg.Pipeline.Lookup(f.Name)
		switch {
		case !ok:
			return nil, fmt.Sprintf("this worker does not have the tool %q", f.Name)
		case !protocol.SameContract(f.ContractHash, def.ContractHash()):
			return nil, fmt.Sprintf("this worker's contract of %q differs from the one the agent started with", f.Name)
		}
		return def, ""
	}
	s := e.source(f.Source)
	if s == nil {
		return nil, fmt.Sprintf("this worker does not have the source %q of the tool %q", f.Source, f.Name)
	}
	def, fresh := s.kept(f.Name)
	if drift = drifted(def, f); drift == "" && (fresh || !running) {
		return def, ""
	}
	if running {
		waiting, stop := alive(ctx)
		defer stop()
		ctx = waiting
	}
	if _, err := s.list(ctx); err != nil {
		e.log.Warn("assent: a source of tools does not answer", "source", s.name, "error", err)
		switch {
		case drift == "":
			// Its last word holds; the call itself will tell.
			if ctx.Err() == nil {
				s.silent()
			}
			return def, ""
		case def == nil:
			// The source's own words pass no redaction here.
			drift = fmt.Sprintf("the tool %q is not to be had: the source %q does not answer this worker, whose log says why", f.Name, f.Source)
		}
		return nil, drift
	}
	def, _, _ = s.last(f.Name)
	if drift = drifted(def, f); drift != "" {
		return nil, drift
	}
	return def, ""
}

// drifted says why what a source offers is not what an agent began with: another contract, or more authority. Less is none,
// because the agent's calls are judged by what was frozen.
func drifted(d *tool.Def, f protocol.ToolFacts) string {
	if d == nil {
		return fmt.Sprintf("the source %q does not offer the tool %q any more", f.Source, f.Name)
	}
	i := d.Info()
	switch {
	case !protocol.SameContract(f.ContractHash, d.ContractHash()):
		return fmt.Sprintf("the source %q offers the tool %q with another description or schema than the one the agent started with", f.Source, f.Name)
	case severity(i.Risk) > severity(f.Risk):
		return fmt.Sprintf("the tool %q of the source %q is of risk %s now and was %s when the agent started", f.Name, f.Source, said(i.Risk), said(f.Risk))
	case i.NeedsApproval && !f.NeedsApproval:
		return fmt.Sprintf("the tool %q of the source %q needs approval now and did not when the agent started", f.Name, f.Source)
	}
	return ""
}

// severity orders risks as presets do: what is undeclared is worse than all but what destroys.
func severity(r tool.Risk) int {
	return slices.Index([]tool.Risk{tool.Read, tool.Write, tool.Network, tool.Execute, tool.Undeclared, tool.Destructive}, r)
}

// said is the word of rules for a risk.
func said(r tool.Risk) string { return cmp.Or(string(r), "undeclared") }
