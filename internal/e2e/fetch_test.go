package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/toolbox"
	"github.com/assent-dev/assent/worker"
)

// site is a server that redirects /to?URL, counts what it is asked, and has the names 127.0.0.1 and localhost.
type site struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func newSite(t *testing.T) *site {
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Host+r.URL.Path)
		s.mu.Unlock()
		if r.URL.Path == "/to" {
			http.Redirect(w, r, r.URL.RawQuery, http.StatusFound)
			return
		}
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(s.Close)
	return s
}

// as is a URL of the site under a name.
func (s *site) as(host, path string) string {
	return strings.Replace(s.URL, "127.0.0.1", host, 1) + path
}

// asked returns the requests, without ports.
func (s *site) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.seen {
		host, rest, _ := strings.Cut(r, ":")
		_, path, _ := strings.Cut(rest, "/")
		out = append(out, host+"/"+path)
	}
	return out
}

// fetches works with an agent that fetches these URLs in one turn under these rules.
func (w *world) fetches(allow []string, layer permission.Layer, urls ...string) {
	w.t.Helper()
	var script strings.Builder
	script.WriteString("turns:\n  - calls:\n")
	for _, u := range urls {
		fmt.Fprintf(&script, "      - {tool: fetch, args: {url: %q}}\n", u)
	}
	script.WriteString("  - say: done\n")
	cfg, done, err := engine(setup{Script: script.String(), Keys: true}, w.c, w.effects, w.blobs)
	require.NoError(w.t, err)
	w.t.Cleanup(done)
	fetch, err := toolbox.Fetch(toolbox.FetchConfig{Allow: allow})
	require.NoError(w.t, err)
	p := cfg.Profiles["p"]
	p.Tools, p.Permissions = []string{"fetch"}, layer
	cfg.Profiles["p"], cfg.Tools = p, append(cfg.Tools, fetch)
	plug, err := worker.New(cfg)
	require.NoError(w.t, err)
	w.workWith(plug)
}

var loopback = []string{"127.0.0.1", "localhost"}

func domains(hosts ...string) permission.Rule {
	return permission.Rule{Tool: permission.One("fetch"), Domains: permission.Many(hosts...)}
}

// What stood in the first URL can be asked about; the tool runs when somebody has said yes, and not before.
func TestFetchAsksAboutTheFirstURL(t *testing.T) {
	t.Parallel()
	for name, layer := range map[string]permission.Layer{
		"domain": {Ask: []permission.Rule{domains("127.0.0.1")}},
		"preset": {Preset: permission.Standard},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w := newSite(t), newWorld(t)
			w.fetches(loopback, layer, s.URL+"/a", s.URL+"/b")
			w.start(protocol.AgentInput{})
			questions := w.pending(2)
			require.Empty(t, s.asked())
			w.answer(questions[0].Key, approval.Allow)
			w.answer(questions[1].Key, approval.Deny)
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, []string{"OK", "DENIED/person"}, w.codes(res))
			require.Equal(t, []string{"127.0.0.1/a"}, s.asked())
		})
	}
}

// Rules hold for what comes behind the first URL: the profile's, and those of the agent's own input.
func TestFetchKeepsTheRulesBehindRedirects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layer permission.Layer
		own   *protocol.Tighten
		by    string
	}{
		"deny": {permission.Layer{Deny: []permission.Rule{domains("localhost")}}, nil, "deny-rule {tool: fetch, domains: [localhost]}, at run time"},
		"ask":  {permission.Layer{Ask: []permission.Rule{domains("localhost")}}, nil, "ask-rule {tool: fetch, domains: [localhost]}, at run time"},
		"deny of the agent's input": {permission.Layer{}, &protocol.Tighten{Deny: []permission.Rule{domains("localhost")}},
			"deny-rule {tool: fetch, domains: [localhost]}, at run time"},
		"ask of the agent's input": {permission.Layer{}, &protocol.Tighten{Ask: []permission.Rule{domains("localhost")}},
			"ask-rule {tool: fetch, domains: [localhost]}, at run time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w := newSite(t), newWorld(t)
			w.fetches(loopback, c.layer, s.URL+"/to?"+s.as("localhost", "/secret"), s.URL+"/to?"+s.URL+"/fine")
			w.start(protocol.AgentInput{Permissions: c.own})
			res := w.result()
			require.Equal(t, protocol.OK, res.Status, res.Error)
			require.Equal(t, []string{"DENIED/rule", "OK"}, w.codes(res))
			require.Equal(t, c.by, w.results(res)[0].Result.Failure.By)
			require.Equal(t, []string{"127.0.0.1/to", "127.0.0.1/to", "127.0.0.1/fine"}, s.asked())
		})
	}
}

// Without an operator's leave no agent reaches the worker's own machine, whatever its rules allow.
func TestFetchReachesNoPrivateAddress(t *testing.T) {
	t.Parallel()
	s, w := newSite(t), newWorld(t)
	yes := permission.Hook{Name: "yes", Judge: func(context.Context, permission.Call) (permission.Answer, error) {
		return permission.AnswerAllow(), nil
	}}
	w.fetches([]string{"localhost"}, permission.Layer{Hooks: []permission.Hook{yes}},
		s.URL+"/x", s.as("localhost", "/to?")+s.URL+"/x", s.as("2130706433", "/x"), s.as("localhost", "/fine"))
	w.start(protocol.AgentInput{})
	res := w.result()
	require.Equal(t, []string{"DENIED/rule", "DENIED/rule", "DENIED/rule", "OK"}, w.codes(res))
	require.Equal(t, "worker.fetch.allow, at run time", w.results(res)[1].Result.Failure.By)
	require.Equal(t, []string{"localhost/to", "localhost/fine"}, s.asked())
}
