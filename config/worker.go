package config

import (
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/assent-dev/assent/toolbox"
)

var (
	envName    = regexp.MustCompile(`\A[A-Za-z_][A-Za-z0-9_]*\z`)
	filterName = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._-]*\z`)
)

func (f *File) models(v value) {
	v.fields(
		field{"scripted", func(v value) {
			v.fields(field{"scripts", func(v value) { f.Models.Scripted = v.paths("a mapping of scripts") }})
		}},
		field{"prices", func(v value) { f.Models.Prices = v.prices() }},
		field{"compactAt", func(v value) { f.Models.CompactAt = v.share() }},
		field{"stream", func(v value) { f.Models.StreamEvery = v.every() }},
		field{vendorAnthropic, func(v value) { f.provider(v, vendorAnthropic, APIMessages, "ANTHROPIC_API_KEY") }},
		field{vendorOpenAI, func(v value) { f.provider(v, vendorOpenAI, APIResponses, "OPENAI_API_KEY") }},
		field{"others", f.others},
	)
}

// paths reads a mapping of names to paths.
func (v value) paths(what string) map[string]string {
	out := map[string]string{}
	v.entries(what, func(name string, at place, member value) {
		if name == "" {
			v.r.fail(v.r.errorAt(at, v.key, "a name is empty"))
		}
		out[name] = member.path()
	})
	return out
}

func (f *File) worker(v value) {
	w := &f.Worker
	into := func(s *string) func(value) { return func(v value) { *s = v.name() } }
	path := func(s *string) func(value) { return func(v value) { *s = v.path() } }
	v.fields(
		field{"taskQueue", into(&w.TaskQueue)},
		field{"address", func(v value) {
			w.Address = v.name()
			if _, port, err := net.SplitHostPort(w.Address); v.r.err == nil && (err != nil || port == "") {
				v.fail("bad address %q, want host:port", w.Address)
			}
		}},
		field{"namespace", into(&w.Namespace)},
		field{"dir", path(&w.Dir)},
		field{"blobs", path(&w.Blobs)},
		field{"grantKeyFile", path(&w.GrantKeyFile)},
		field{"deployment", func(v value) { v.deployment(&w.Deployment) }},
		field{"worktrees", func(v value) { v.worktrees(&w.Worktrees) }},
		field{"fetch", func(v value) {
			v.fields(field{"allow", func(v value) { w.Fetch.Allow = v.admitted() }})
		}},
		field{"shell", func(v value) {
			v.fields(
				field{"engine", func(v value) { w.Shell.Engine = v.choice("shell engine", ShellInterp, ShellSh) }},
				field{"env", func(v value) { w.Shell.Env = v.env() }},
			)
		}},
	)
}

// mostVersion bounds a deployment's name and a build id, in bytes: the server makes one workflow id of both.
const mostVersion = 200

func (v value) deployment(d *Deployment) {
	d.Behavior = Pinned
	// What the server refuses, it refuses at every poll of the worker.
	part := func(s *string, separators string) func(value) {
		return func(v value) {
			switch *s = v.name(); {
			case v.r.err != nil:
			case len(*s) > mostVersion:
				v.fail("has %d bytes, at most %d fit", len(*s), mostVersion)
			case strings.HasPrefix(*s, "__"):
				v.fail("%q begins with __, which is the server's", *s)
			case strings.ContainsAny(*s, separators):
				v.fail("%q holds one of %q, which separate it from the build id", *s, separators)
			}
		}
	}
	v.fields(
		field{"name", part(&d.Name, ".:")},
		field{"buildId", part(&d.BuildID, "")},
		field{"behavior", func(v value) { d.Behavior = v.choice("behavior", Pinned, AutoUpgrade) }},
	)
	v.require("name", d.Name)
	v.require("buildId", d.BuildID)
}

func (v value) worktrees(w *Worktrees) {
	v.fields(
		field{"repos", func(v value) { w.Repos = v.paths("a mapping of repositories") }},
		field{"root", func(v value) { w.Root = v.path() }},
		field{"keepOnError", func(v value) { w.KeepOnError = v.boolean() }},
		field{"pinCap", func(v value) { w.PinCap = v.integer(0) }},
		field{"minFree", func(v value) { w.MinFree = v.bytes() }},
		field{"maxBytes", func(v value) { w.MaxBytes = v.bytes() }},
		field{"private", func(v value) { v.private(w) }},
		field{"git", func(v value) { w.Git = v.path() }},
		field{"filters", func(v value) { w.Filters = v.filters() }},
	)
	if len(w.Filters) > 0 && w.Git == "" && v.r.err == nil {
		v.fail("filters need git, the path of the binary that runs them")
	}
	for i, name := range w.PrivateRepos {
		if _, ok := w.Repos[name]; !ok {
			e := v.r.errorAt(v.r.nearest(fmt.Sprintf("%s.private[%d]", v.key, i)), "", fmt.Sprintf("unknown repository %q", name))
			e.Allowed = slices.Sorted(maps.Keys(w.Repos))
			v.r.fail(e)
		}
	}
}

// private reads true or false for all repositories, or a list of their names.
func (v value) private(w *Worktrees) {
	if _, ok := v.node.(*ast.SequenceNode); ok {
		w.PrivateRepos = v.names()
		return
	}
	if _, ok := v.node.(*ast.BoolNode); !ok {
		v.want("true, false or a list of repositories")
		return
	}
	w.Private = v.boolean()
}

// filters reads the names of filter drivers of git.
func (v value) filters() []string {
	out := []string{}
	v.list("a list of strings", func(e value) {
		name := e.name()
		switch {
		case e.r.err != nil:
		case !filterName.MatchString(name):
			e.fail("%q is no name of a filter", name)
		case slices.Contains(out, name):
			e.fail("%q stands twice", name)
		}
		out = append(out, name)
	})
	return out
}

// admitted reads hosts, addresses and CIDR prefixes.
func (v value) admitted() []string {
	out := []string{}
	v.list("a list of hosts", func(e value) {
		text := e.name()
		if err := toolbox.CheckAllow(text); err != nil && e.r.err == nil {
			e.fail("%v", err)
		}
		out = append(out, text)
	})
	return out
}

func (v value) env() map[string]string {
	out := map[string]string{}
	v.entries("a mapping of variables", func(name string, at place, member value) {
		if !envName.MatchString(name) {
			v.r.fail(v.r.errorAt(at, v.key, "bad name of a variable"))
			return
		}
		out[name] = member.text()
	})
	return out
}
