package tool

import "time"

// An Option sets policy, or the version, of a tool while it is defined. Risk, Version and Options are options
// themselves, so `tool.New(name, description, fn, tool.Read, tool.Version("2"))` reads as it is meant.
// When two options set the same field the later one wins.
type Option interface {
	apply(*Info, *choices)
}

// choices holds what an Info cannot: whether something was said at all.
type choices struct {
	concurrent *bool
	timeouts   *Timeouts
	retry      *Retry
	// positional is nil unless it was said.
	positional []string
}

type optionFunc func(*Info, *choices)

func (f optionFunc) apply(i *Info, c *choices) { f(i, c) }

func (r Risk) apply(i *Info, _ *choices) { i.Risk = r }

// Version is the opaque version of a tool's contract, compared for equality only. Raise it when the same call
// means something else than before; the empty Version is present and differs from none.
type Version string

func (v Version) apply(i *Info, _ *choices) {
	s := string(v)
	i.Version = &s
}

// NeedsApproval turns the default verdict for the tool from allow into ask.
func NeedsApproval() Option {
	return optionFunc(func(i *Info, _ *choices) { i.NeedsApproval = true })
}

// Executor says where the body runs. InProcess is always served; others must be registered before the tool is defined.
func Executor(name string) Option {
	return optionFunc(func(i *Info, _ *choices) { i.Executor = name })
}

// Timeout bounds one attempt of the tool. A negative duration is a *fault.ConfigError; zero declares none.
func Timeout(d time.Duration) Option {
	return optionFunc(func(i *Info, _ *choices) { i.Timeout = d })
}

// Idempotent declares that running the tool twice with the same idempotency key does what running it once does,
// so that a lost attempt may be repeated.
func Idempotent() Option {
	return optionFunc(func(i *Info, _ *choices) { i.Idempotent = true })
}

// Concurrent declares whether calls may overlap with others of the same turn. Undeclared, read-risk tools do.
func Concurrent(yes bool) Option {
	return optionFunc(func(_ *Info, c *choices) { c.concurrent = &yes })
}

// Options sets many fields at once; its zero fields set nothing.
type Options struct {
	Risk          Risk
	NeedsApproval bool
	Executor      string
	Timeout       time.Duration
	Idempotent    bool
	Concurrent    *bool
	Version       *string
}

func (o Options) apply(i *Info, c *choices) {
	if o.Risk != Undeclared {
		i.Risk = o.Risk
	}
	if o.Executor != "" {
		i.Executor = o.Executor
	}
	if o.Timeout != 0 {
		i.Timeout = o.Timeout
	}
	if o.Concurrent != nil {
		c.concurrent = o.Concurrent
	}
	if o.Version != nil {
		Version(*o.Version).apply(i, c)
	}
	i.NeedsApproval = i.NeedsApproval || o.NeedsApproval
	i.Idempotent = i.Idempotent || o.Idempotent
}
