package mcp

import (
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/internal/secret"
	"github.com/assent-dev/assent/tool"
)

// Key says where a token is: the environment or a file.
type Key = secret.Key

// What a Config leaves out.
const (
	// DefaultStartTimeout bounds a connection and the first listing together; programs that are installed at their first start
	// need it.
	DefaultStartTimeout = 30 * time.Second
	DefaultCallTimeout  = 2 * time.Minute
	DefaultMaxResult    = 1 << 20
)

// Bounds of a Config.
const (
	maxTimeout = 24 * time.Hour
	minResult  = 1 << 10
)

// Dir stands for the agent's working directory in a Command of a server with PerDir.
const Dir = "{dir}"

// Config describes a server: a Command or a URL, and what its tools are for agents. Names in Allow, Deny, Approval, Risk and
// Idempotent are the server's own, without the prefix; one that the server does not have is an error at Start.
type Config struct {
	// Name is that of the source, as profiles list it.
	Name string
	// Command is a program and its arguments. Env is added to a small closed environment, which has none of the worker's keys;
	// PassEnv names variables of the worker that are passed on.
	Command []string
	Env     map[string]string
	PassEnv []string
	// Dir is the working directory of the program.
	Dir string
	// PerDir starts a program for each working directory of an agent. It is the program's own, "{dir}" in Command stands for
	// it, and it is the only root that the server is told.
	PerDir bool
	// URL is the address of a server over streamable HTTP. Headers are sent with each request and are no place for secrets:
	// Token is, which is sent as `Authorization: Bearer` and read anew for each request.
	URL     string
	Headers map[string]string
	Token   Key
	// Prefix stands before each name; nil is Name and "_", "" is none.
	Prefix *string
	// Allow names the tools that are offered, nil all; Deny those that are not.
	Allow, Deny []string
	// Approval names the tools that need approval; ApproveAll is for all.
	Approval   []string
	ApproveAll bool
	// Risk is the risk of tools by name; it is undeclared for others. Only a server's own hint that a tool is destructive
	// beats it.
	Risk map[string]tool.Risk
	// Idempotent names the tools that may be called again after a call that was lost; each call carries its key in _meta.
	Idempotent []string
	// StartTimeout bounds connecting and each listing, CallTimeout a call. Zero is the default.
	StartTimeout, CallTimeout time.Duration
	// MaxResult bounds the text of one result in bytes. Zero is DefaultMaxResult.
	MaxResult int
	// Log gets what servers do wrong. nil is none.
	Log *slog.Logger
}

var (
	namePattern   = regexp.MustCompile(`\A[a-zA-Z0-9_-]{1,64}\z`)
	prefixPattern = regexp.MustCompile(`\A[a-zA-Z0-9_-]{0,63}\z`)
)

// check completes c and reports what is wrong with it as far as that shows without the server.
func (c *Config) check() error {
	if !namePattern.MatchString(c.Name) {
		return fault.Configf("mcp", "%q is no name of a server; 1 to 64 of a-z A-Z 0-9 _ - are", c.Name)
	}
	if c.Prefix == nil {
		prefix := c.Name + "_"
		c.Prefix = &prefix
	}
	if !prefixPattern.MatchString(*c.Prefix) {
		return c.errorf("prefix", "%q cannot stand before the name of a tool; at most 63 of a-z A-Z 0-9 _ - can", *c.Prefix)
	}
	for _, check := range []func() error{c.checkTransport, c.checkNames, c.checkBounds} {
		if err := check(); err != nil {
			return err
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("server", c.Name)
	return nil
}

// errorf is an error about one key of this server.
func (c *Config) errorf(key, format string, args ...any) *fault.ConfigError {
	return fault.Configf("mcp."+c.Name+"."+key, format, args...)
}

func (c *Config) checkTransport() error {
	switch {
	case len(c.Command) > 0 && c.URL != "":
		return c.errorf("command", "and url are both set; a server has one of them")
	case c.URL != "":
		return c.checkURL()
	case len(c.Command) == 0:
		return c.errorf("command", "is missing; a server has a command or a url")
	case strings.TrimSpace(c.Command[0]) == "":
		return c.errorf("command", "names no program")
	case strings.Contains(c.Command[0], Dir):
		return c.errorf("command", "is a program in the agent's own directory, which the agent can write")
	case len(c.Headers) > 0, !c.Token.None():
		return c.errorf("url", "is missing; headers and a token are for a server with a url")
	case c.PerDir && slices.Contains(launchers, launcher(c.Command[0])):
		return c.errorf("command", "%q runs what it finds in its working directory, which with perDir is a tree that an agent writes to; name the server's own program by its path", c.Command[0])
	case c.PerDir && c.Dir != "":
		return c.errorf("dir", "and perDir are both set; with perDir it is the agent's directory")
	}
	for _, arg := range c.Command {
		if strings.Contains(arg, Dir) && !c.PerDir {
			return c.errorf("command", "%q has %s, which stands for a directory only with perDir", arg, Dir)
		}
		if strings.ContainsRune(arg, 0) {
			return c.errorf("command", "has a zero byte")
		}
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(c.Env)), c.PassEnv) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return c.errorf("env", "%q is no name of a variable", name)
		}
		if strings.ContainsRune(c.Env[name], 0) {
			return c.errorf("env."+name, "has a zero byte")
		}
	}
	return nil
}

// launchers are programs that take code, or where to get it, from the working directory. In an agent's tree that would be the
// agent's, run without anybody's permission.
var launchers = []string{"npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "deno", "uv"}

func launcher(program string) string {
	name := strings.ToLower(program[strings.LastIndexAny(program, `/\`)+1:])
	return strings.TrimSuffix(strings.TrimSuffix(name, ".exe"), ".cmd")
}

func (c *Config) checkURL() error {
	const like = "want one such as https://mcp.example.com/mcp"
	switch {
	case c.PerDir:
		return c.errorf("perDir", "is for a server with a command")
	case c.Dir != "" || len(c.Env) > 0 || len(c.PassEnv) > 0:
		return c.errorf("command", "is missing; dir, env and passEnv are for a server with a command")
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return c.errorf("url", "is no address over http or https; %s", like)
	case u.User != nil:
		return c.errorf("url", "holds a user or password; a token comes from tokenEnv or tokenFile")
	case u.Fragment != "":
		return c.errorf("url", "has a fragment, which is never sent; %s", like)
	}
	if err := checkHeaders(c); err != nil {
		return err
	}
	if c.Token.None() {
		return nil
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		return c.errorf("url", "would carry the token in the clear over http; want https, or a host of this machine")
	}
	if _, err := c.Token.ReadAs("token"); err != nil {
		return c.named(err)
	}
	return nil
}

// named puts the server's name before the key of a ConfigError.
func (c *Config) named(err error) error {
	var e *fault.ConfigError
	if errors.As(err, &e) {
		e.Key = "mcp." + c.Name + "." + e.Key
	}
	return err
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// ours are the headers that are set from elsewhere, and those that would let net/http send a call twice.
var ours = []string{"idempotency-key", "x-idempotency-key", "authorization", "proxy-authorization", "cookie", "host", "content-type", "content-length", "accept", "accept-encoding", "transfer-encoding", "connection", "last-event-id"}

func checkHeaders(c *Config) error {
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		lower := strings.ToLower(name)
		switch {
		case name == "" || strings.Trim(lower, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
			return c.errorf("headers", "%q is no name of a header", name)
		case slices.Contains(ours, lower), strings.HasPrefix(lower, "mcp-"):
			return c.errorf("headers."+name, "is not set here; a token comes from tokenEnv or tokenFile")
		case strings.ContainsFunc(c.Headers[name], func(r rune) bool { return r < ' ' || r == 0x7f }):
			return c.errorf("headers."+name, "holds a control character")
		}
	}
	return nil
}

func (c *Config) checkNames() error {
	for _, list := range []struct {
		key   string
		names []string
	}{{"allow", c.Allow}, {"deny", c.Deny}, {"approval", c.Approval}, {"idempotent", c.Idempotent}} {
		for i, name := range list.names {
			if name == "" {
				return c.errorf(list.key, "has an empty name")
			}
			if slices.Contains(list.names[:i], name) {
				return c.errorf(list.key, "names %q twice", name)
			}
		}
	}
	for _, name := range c.Allow {
		if slices.Contains(c.Deny, name) {
			return c.errorf("deny", "names %q, which allow names too", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Risk)) {
		if risk := c.Risk[name]; risk != tool.Undeclared && !slices.Contains(tool.Risks(), risk) {
			e := c.errorf("risk."+name, "unknown risk %q", string(risk))
			for _, r := range tool.Risks() {
				e.Allowed = append(e.Allowed, string(r))
			}
			return e
		}
	}
	return nil
}

func (c *Config) checkBounds() error {
	for _, t := range []struct {
		key   string
		value *time.Duration
		zero  time.Duration
	}{{"startTimeout", &c.StartTimeout, DefaultStartTimeout}, {"callTimeout", &c.CallTimeout, DefaultCallTimeout}} {
		switch {
		case *t.value == 0:
			*t.value = t.zero
		case *t.value < time.Millisecond || *t.value > maxTimeout:
			return c.errorf(t.key, "is %s; want 1ms to %s", *t.value, maxTimeout)
		}
	}
	switch {
	case c.MaxResult == 0:
		c.MaxResult = DefaultMaxResult
	case c.MaxResult < minResult || c.MaxResult > MaxMessage:
		return c.errorf("maxResult", "is %d bytes; want %d to %d", c.MaxResult, minResult, MaxMessage)
	}
	return nil
}

// clone makes the configuration independent of the caller's maps and lists.
func (c *Config) clone() {
	c.Env, c.Headers, c.Risk = maps.Clone(c.Env), maps.Clone(c.Headers), maps.Clone(c.Risk)
	for _, list := range []*[]string{&c.Command, &c.PassEnv, &c.Allow, &c.Deny, &c.Approval, &c.Idempotent} {
		*list = slices.Clone(*list)
	}
}
