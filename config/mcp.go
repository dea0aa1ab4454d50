package config

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/assent-dev/assent/model/endpoint"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
)

// PerDirMark stands in a command for the directory of the agent that a server is for.
const PerDirMark = "{dir}"

// mostServerName bounds the name of a server in bytes: with its tools' names behind it, it has to fit a tool's name.
const mostServerName = 40

var (
	serverName   = regexp.MustCompile(`\A[a-zA-Z0-9_-]+\z`)
	serverPrefix = regexp.MustCompile(`\A[a-zA-Z0-9_-]*\z`)
)

// MCPServer is one server of the section mcp. What was not written is the zero value, except Dir and Required. Names of
// tools in it are the server's own, without the prefix.
type MCPServer struct {
	// Key is the dotted key of the section, for errors.
	Key string
	// Command is a program and its arguments; a program that is a path is absolute. URL is the other way to a server.
	Command []string
	// Env is added to a closed environment, PassEnv are names of the worker's variables that are passed on.
	Env     map[string]string
	PassEnv []string
	// Dir is where the program runs, absolute: the file's folder if nothing was written, and empty with PerDir.
	Dir string
	// PerDir runs one process for each agent's directory; PerDirMark stands for it in Command.
	PerDir  bool
	URL     string
	Headers map[string]string
	Token   endpoint.Key
	// Prefix is nil for the name of the server and an underscore.
	Prefix      *string
	Allow, Deny []string
	// Approval are tools that need approval; ApproveAll means all of them.
	Approval                  []string
	ApproveAll                bool
	Risk                      map[string]tool.Risk
	Idempotent                []string
	StartTimeout, CallTimeout time.Duration
	MaxResult                 int
	// Required is true unless the file says otherwise: a worker does not start without the server.
	Required bool
}

// PrefixOf is what stands before the names of the tools of a server.
func (s MCPServer) PrefixOf(name string) string {
	if s.Prefix != nil {
		return *s.Prefix
	}
	return name + "_"
}

// Describes returns what a file says of the tool of this final name: the server, and risk and approval as far as they are
// known without asking it. It reports false for a name that is no server's for sure.
func (f *File) Describes(name string) (server string, risk tool.Risk, approval, ok bool) {
	for _, server := range slices.Sorted(maps.Keys(f.MCP)) {
		s := f.MCP[server]
		original, has := strings.CutPrefix(name, s.PrefixOf(server))
		if has && original != "" && s.PrefixOf(server) != "" {
			return server, s.Risk[original], s.ApproveAll || slices.Contains(s.Approval, original), true
		}
	}
	return "", tool.Undeclared, false, false
}

func (f *File) mcp(v value) {
	f.MCP = map[string]MCPServer{}
	prefixes := map[string]string{}
	v.entries("a mapping of servers", func(name string, at place, member value) {
		what := taken(name)
		refuse := func(format string, args ...any) { v.r.fail(v.r.errorAt(at, v.key, fmt.Sprintf(format, args...))) }
		switch {
		case !serverName.MatchString(name) || len(name) > mostServerName:
			refuse("%q cannot be the name of a server: want 1 to %d of a-z, A-Z, 0-9, _ and -", name, mostServerName)
			return
		case what != "":
			refuse("the name %q is taken by %s: a profile's list could not tell them apart", name, what)
			return
		}
		s := member.server()
		f.MCP[name] = s
		prefix := s.PrefixOf(name)
		if other, twice := prefixes[prefix]; twice && prefix != "" && v.r.err == nil {
			v.r.fail(v.r.errorAt(v.r.nearest(member.key+".prefix"), "", fmt.Sprintf("%s and mcp.%s have one prefix, %q: a name could be a tool of either", member.key, other, prefix)))
		}
		prefixes[prefix] = name
	})
}

// taken says what of the toolbox has a name.
func taken(name string) string {
	if name == toolbox.FilesSet {
		return "a set of first-party tools"
	}
	defs, err := toolbox.All(toolbox.Config{})
	if err == nil && slices.ContainsFunc(defs, func(d *tool.Def) bool { return d.Name() == name }) {
		return "a first-party tool"
	}
	return ""
}

// server reads one server.
func (v value) server() MCPServer {
	s := MCPServer{Key: v.key, Required: true}
	v.fields(
		field{"command", func(v value) { s.Command = v.command() }},
		field{"env", func(v value) { s.Env = v.env() }},
		field{"passEnv", func(v value) { s.PassEnv = v.variables() }},
		field{"dir", func(v value) { s.Dir = v.path() }},
		field{"perDir", func(v value) { s.PerDir = v.boolean() }},
		field{"url", func(v value) { s.URL = v.serverURL() }},
		field{"headers", func(v value) { s.Headers = v.serverHeaders() }},
		field{"tokenEnv", func(v value) {
			if s.Token.Env = v.name(); v.r.err == nil && !envName.MatchString(s.Token.Env) {
				v.fail("is no name of an environment variable, which is what stands here; the token itself does not")
			}
		}},
		field{"tokenFile", func(v value) { s.Token.File = v.path() }},
		field{"prefix", func(v value) {
			p := v.text()
			if s.Prefix = &p; v.r.err == nil && (!serverPrefix.MatchString(p) || len(p) > mostServerName) {
				v.fail("%q cannot begin the name of a tool: want 0 to %d of a-z, A-Z, 0-9, _ and -", p, mostServerName)
			}
		}},
		field{"allow", func(v value) {
			if s.Allow = v.names(); v.r.err == nil && len(s.Allow) == 0 {
				v.fail("is empty; leave it out for all tools of the server")
			}
		}},
		field{"deny", func(v value) { s.Deny = v.names() }},
		field{"approval", func(v value) { s.Approval, s.ApproveAll = v.approvals() }},
		field{"risk", func(v value) { s.Risk = v.risks() }},
		field{"idempotent", func(v value) { s.Idempotent = v.names() }},
		field{"startTimeout", func(v value) { s.StartTimeout = v.wait() }},
		field{"callTimeout", func(v value) { s.CallTimeout = v.wait() }},
		field{"maxResult", func(v value) { s.MaxResult = v.result() }},
		field{"required", func(v value) { s.Required = v.boolean() }},
	)
	if v.r.err == nil {
		s.check(v)
	}
	if s.Dir == "" && s.Command != nil && !s.PerDir {
		s.Dir = v.r.dir
	}
	return s
}

// check looks at what depends on each other.
func (s MCPServer) check(v value) {
	refuse := func(key, format string, args ...any) {
		v.r.fail(v.r.errorAt(v.r.nearest(v.key+"."+key), v.key+"."+key, fmt.Sprintf(format, args...)))
	}
	if s.Command == nil && s.URL == "" {
		v.fail("command or url is missing: a program to start, or the address of a server that runs")
		return
	}
	if s.Command != nil && s.URL != "" {
		refuse("url", "and command are both set; a server is started or has an address")
		return
	}
	for _, w := range []struct {
		key       string
		set, for_ bool
		want      string
	}{
		{"env", s.Env != nil, s.Command != nil, "command"},
		{"passEnv", s.PassEnv != nil, s.Command != nil, "command"},
		{"dir", s.Dir != "", s.Command != nil, "command"},
		{"perDir", s.PerDir, s.Command != nil, "command"},
		{"headers", s.Headers != nil, s.URL != "", "url"},
		{"tokenEnv", s.Token.Env != "", s.URL != "", "url"},
		{"tokenFile", s.Token.File != "", s.URL != "", "url"},
	} {
		if w.set && !w.for_ {
			refuse(w.key, "goes with %s only", w.want)
			return
		}
	}
	marked := slices.ContainsFunc(s.Command, func(arg string) bool { return strings.Contains(arg, PerDirMark) })
	switch {
	case s.Token.Env != "" && s.Token.File != "":
		refuse("tokenFile", "and tokenEnv are both set; one of them names the token")
	case s.PerDir && s.Dir != "":
		refuse("dir", "and perDir are both set; with perDir the directory is the agent's")
	case marked && !s.PerDir:
		refuse("command", "holds %s, which is the agent's directory with perDir: true", PerDirMark)
	}
	for _, name := range s.PassEnv {
		if _, twice := s.Env[name]; twice {
			refuse("passEnv", "%s is set in env too", name)
		}
	}
	for i, name := range s.Deny {
		if slices.Contains(s.Allow, name) {
			refuse(fmt.Sprintf("deny[%d]", i), "%q is allowed and denied", name)
		}
	}
}

// command reads a program and its arguments. A program that is a path is resolved against the file's folder.
func (v value) command() []string {
	var out []string
	v.list(`a list of strings such as ["npx", "server"]`, func(e value) { out = append(out, e.text()) })
	switch {
	case v.r.err != nil:
	case len(out) == 0:
		v.fail("is empty")
	case strings.TrimSpace(out[0]) == "":
		v.fail("the program is empty")
	case strings.HasPrefix(out[0], "~"):
		v.fail("~ is not expanded; write the path out")
	case strings.ContainsAny(out[0], `/\`) && !filepath.IsAbs(out[0]):
		out[0] = filepath.Join(v.r.dir, out[0])
	}
	return out
}

// variables reads names of environment variables.
func (v value) variables() []string {
	out := v.names()
	for i, name := range out {
		if v.r.err == nil && !envName.MatchString(name) {
			v.r.fail(v.r.errorAt(v.r.nearest(fmt.Sprintf("%s[%d]", v.key, i)), v.key, fmt.Sprintf("%q is no name of a variable; values stand in env", name)))
		}
	}
	return out
}

// serverURL reads the address of a server.
func (v value) serverURL() string {
	text := v.name()
	const like = "want one such as https://mcp.example.com/mcp"
	u, err := url.Parse(text)
	switch {
	case v.r.err != nil:
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", strings.ContainsAny(text, " \n"):
		v.fail("is no URL of http or https, %s", like)
	case u.User != nil:
		v.fail("holds a user or password; a token comes from tokenEnv or tokenFile")
	case u.Fragment != "":
		v.fail("has a fragment, which no server sees")
	}
	return text
}

// secretHeaders hold what does not stand in a file under review.
var secretHeaders = []string{"authorization", "proxy-authorization", "cookie"}

// serverHeaders reads headers that are added to each request.
func (v value) serverHeaders() map[string]string {
	v.entries("a mapping of headers", func(name string, _ place, member value) {
		if slices.Contains(secretHeaders, strings.ToLower(name)) {
			member.fail("is not set here; a token comes from tokenEnv or tokenFile")
		}
	})
	if v.r.err != nil {
		return nil
	}
	return v.headers()
}

// approvals reads all, or a list of names.
func (v value) approvals() (names []string, all bool) {
	if s, ok := stringOf(v.node); ok {
		if s != "all" {
			v.fail("want all or a list of tools, got %q", s)
		}
		return nil, true
	}
	names = []string{}
	v.list("all or a list of tools", func(e value) {
		name := e.name()
		if slices.Contains(names, name) {
			e.fail("%q stands twice", name)
		}
		names = append(names, name)
	})
	return names, false
}

// risks reads the risks of tools.
func (v value) risks() map[string]tool.Risk {
	out := map[string]tool.Risk{}
	v.entries("a mapping of tools to risks", func(name string, _ place, member value) {
		risk := member.choice("risk", permission.RiskNames()...)
		if risk == "undeclared" {
			risk = ""
		}
		out[name] = tool.Risk(risk)
	})
	return out
}

// The bounds of one result in bytes: less says nothing, more does not come over the wire.
const (
	leastResult = 1 << 10
	mostResult  = 16 << 20
)

// result reads the bound of a result.
func (v value) result() int {
	n := v.bytes()
	if v.r.err == nil && (n < leastResult || n > mostResult) {
		v.fail("%d bytes are out of range; 1KiB to 16MiB", n)
		return 0
	}
	return int(n)
}

// wait reads how long something may take.
func (v value) wait() time.Duration {
	const most = 24 * time.Hour
	d := v.duration()
	if v.r.err == nil && d > most {
		v.fail("%s is more than %s", d, most)
	}
	return d
}
