package config

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model/endpoint"
)

// The values of Provider.API.
const (
	// APIMessages is Anthropic's.
	APIMessages = "messages"
	// APIResponses and APIChat are OpenAI's.
	APIResponses = "responses"
	APIChat      = "chat"
)

// What can be chosen of each API. The drivers know it too; they are not imported, so that a program that reads a file has
// no vendor's SDK in it.
var (
	caches          = []string{"5m", "1h", "off"}
	thinkings       = []string{"adaptive", "disabled"}
	dialects        = []string{"openai", "compatible"}
	messagesEfforts = []string{"low", "medium", "high", "xhigh", "max"}
	openAIEfforts   = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
)

// Provider is one endpoint of a provider's API. What was not written is the zero value, except API.
type Provider struct {
	// Key is the dotted key of the section, for errors.
	Key string
	API string
	// Endpoint has no BaseURL if it is the vendor's own.
	Endpoint endpoint.Config
	// Models are the names that may be asked for; empty is any.
	Models []string
	// Cache and Thinking are of APIMessages, Dialect is of the others.
	Cache, Thinking, Dialect string
	Effort                   string
}

// providerNames are those with a section of their own.
const (
	vendorAnthropic = "anthropic"
	vendorOpenAI    = "openai"
	scriptedName    = "scripted"
)

// provider reads one section into the provider of this name. A fixed API is not written in it.
func (f *File) provider(v value, name, api, keyEnv string) {
	p := Provider{Key: v.key, API: api}
	into := func(s *string) func(value) { return func(v value) { *s = v.name() } }
	at := &p.Endpoint
	fields := []field{
		{"baseURL", func(v value) {
			at.BaseURL = v.name()
			_, err := endpoint.BaseURL(at.BaseURL)
			v.refuse(err)
		}},
		{"keyEnv", func(v value) {
			if at.Key.Env = v.name(); v.r.err == nil && !envName.MatchString(at.Key.Env) {
				v.fail("is no name of an environment variable, which is what stands here; the key itself does not")
			}
		}},
		{"keyFile", func(v value) { at.Key.File = v.path() }},
		{"auth", func(v value) { at.Auth = v.choice("way to send a key", endpoint.Bearer, endpoint.XAPIKey) }},
		{"headers", func(v value) { at.Headers = v.headers() }},
		{"timeout", func(v value) { at.Timeout = v.duration() }},
		{"silence", func(v value) { at.Silence = v.duration() }},
		{"models", func(v value) {
			if p.Models = v.names(); v.r.err == nil && len(p.Models) == 0 {
				v.fail("is empty; leave it out for any model")
			}
		}},
		{"cache", func(v value) { p.Cache = v.choice("time in the cache", caches...) }},
		{"thinking", func(v value) { p.Thinking = v.choice("kind of thinking", thinkings...) }},
		{"dialect", func(v value) { p.Dialect = v.choice("dialect", dialects...) }},
		{"effort", into(&p.Effort)},
	}
	switch name {
	case vendorAnthropic:
	case vendorOpenAI:
		fields = append(fields, field{"api", func(v value) { p.API = v.choice("API", APIResponses, APIChat) }})
	default:
		fields = append(fields, field{"api", func(v value) { p.API = v.choice("API", APIMessages, APIResponses, APIChat) }})
	}
	v.fields(fields...)
	if name != vendorAnthropic && name != vendorOpenAI {
		v.require("api", p.API)
		v.require("baseURL", at.BaseURL)
	}
	if v.r.err != nil {
		return
	}
	p.check(v)
	if at.Key.None() && at.BaseURL == "" {
		// Only the vendor is sent the key that everybody's tools look for.
		at.Key.Env = keyEnv
	}
	if f.Models.Providers == nil {
		f.Models.Providers = map[string]Provider{}
	}
	f.Models.Providers[name] = p
}

// check looks at what depends on the API.
func (p Provider) check(v value) {
	refuse := func(key, msg string) { v.r.locate(&fault.ConfigError{Key: v.key + "." + key, Msg: msg}) }
	messages := p.API == APIMessages
	efforts := openAIEfforts
	if messages {
		efforts = messagesEfforts
	}
	switch {
	case p.Endpoint.Key.Env != "" && p.Endpoint.Key.File != "":
		refuse("keyFile", "and keyEnv are both set; one of them names the key")
	case p.Cache != "" && !messages:
		refuse("cache", "is for api messages; the others cache by themselves")
	case p.Thinking != "" && !messages:
		refuse("thinking", "is for api messages; effort is for the others")
	case p.Dialect != "" && messages:
		refuse("dialect", "is for api responses and chat")
	case p.Effort != "" && !slices.Contains(efforts, p.Effort):
		v.r.locate(&fault.ConfigError{Key: v.key + ".effort", Msg: "unknown effort \"" + p.Effort + "\"", Allowed: efforts})
	}
}

// refuse reports an error of the package that knows what the value means.
func (v value) refuse(err error) {
	var e *fault.ConfigError
	if v.r.err == nil && errors.As(err, &e) {
		v.fail("%s", e.Msg)
	}
}

// headers reads headers that are added to each request.
func (v value) headers() map[string]string {
	out := map[string]string{}
	v.entries("a mapping of headers", func(name string, _ place, member value) {
		out[name] = member.text()
		member.refuse(endpoint.CheckHeader(name, out[name]))
	})
	return out
}

// others reads providers with names of their own.
func (f *File) others(v value) {
	reserved := []string{vendorAnthropic, vendorOpenAI, scriptedName}
	v.entries("a mapping of providers", func(name string, at place, member value) {
		switch {
		case slices.Contains(reserved, name):
			v.r.fail(v.r.errorAt(at, v.key, "the name "+name+" is taken; models."+name+" is its section"))
		case name == "" || strings.ContainsAny(name, ": \t"):
			v.r.fail(v.r.errorAt(at, v.key, "a provider's name is not empty and holds no colon and no space"))
		default:
			if _, ok := member.node.(*ast.MappingNode); !ok {
				member.want("a mapping")
				return
			}
			f.provider(member, name, "", "")
		}
	})
}

// ProviderNames are those that the file configures, the scripts included, sorted.
func (f *File) ProviderNames() []string {
	names := slices.Collect(maps.Keys(f.Models.Providers))
	if len(f.Models.Scripted) > 0 {
		names = append(names, scriptedName)
	}
	slices.Sort(names)
	return names
}

// Locate gives an error about a key of a section its place in the file, if it is a *fault.ConfigError. An empty section
// means that the key is complete.
func (f *File) Locate(section string, err error) error {
	var e *fault.ConfigError
	if !errors.As(err, &e) || e.File != "" || f.source == nil {
		return err
	}
	key := strings.Trim(section+"."+e.Key, ".")
	p := f.source.nearest(key)
	located := *e
	located.Key = key
	if p.line > 0 {
		located.File, located.Line, located.Column, located.Excerpt = f.Path, p.line, p.column, f.source.excerpt(p)
	}
	return &located
}
