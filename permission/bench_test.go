package permission_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/permission/argv"
	"github.com/assent-dev/assent/tool"
)

// manyRules is a policy of n rules in both tables, of every form, of which none matches the tools of the benchmarks.
func manyRules(n int) permission.Layer {
	var l permission.Layer
	for i := range n {
		name := fmt.Sprintf("tool_%d", i)
		var r permission.Rule
		switch i % 4 {
		case 0:
			r = permission.Rule{Tool: permission.One(name)}
		case 1:
			r = permission.Rule{Tool: permission.Many(name, name+"_x"), Argv: permission.One("rm -rf **")}
		case 2:
			r = permission.Rule{Tool: permission.One(name), Domains: permission.One("*.evil.example")}
		case 3:
			r = permission.Rule{Risk: permission.One("destructive")}
		}
		if i%2 == 0 {
			l.Deny = append(l.Deny, r)
		} else {
			l.Ask = append(l.Ask, r)
		}
	}
	return l
}

// sixPatterns is a policy of six argv rules for the shell.
var sixPatterns = permission.Layer{
	Deny: []permission.Rule{argvRule("rm -rf **"), argvRule("git push --force **"), argvRule("dd **")},
	Ask:  []permission.Rule{argvRule("git push **"), argvRule("npm publish **"), argvRule("curl **")},
}

// commands are shell calls with two segments.
const twoSegments = "go test ./... && git diff --stat"

// decisions are the calls that are measured, by name.
var decisions = map[string]struct {
	layer permission.Layer
	info  tool.Info
	input json.RawMessage
}{
	"allow, 20 rules":         {manyRules(20), tool.Info{Name: "read_file", Risk: tool.Read}, json.RawMessage(`{"path":"src/main.go","offset":1}`)},
	"deny, 20 rules":          {manyRules(20), tool.Info{Name: "drop", Risk: tool.Destructive}, json.RawMessage(`{"path":"src/main.go","offset":1}`)},
	"allow, 1000 rules":       {manyRules(1000), tool.Info{Name: "read_file", Risk: tool.Read}, json.RawMessage(`{"path":"src/main.go","offset":1}`)},
	"two segments, six rules": {sixPatterns, tool.Info{Name: "shell", Risk: tool.Execute}, shell(twoSegments)},
}

// BenchmarkDecide measures whole decisions. x-valid is the ratio to checking that the same input is JSON, which every
// decision does first; x-lex is the ratio to lexing the same command once.
func BenchmarkDecide(b *testing.B) {
	for _, name := range []string{"allow, 20 rules", "deny, 20 rules", "allow, 1000 rules", "two segments, six rules"} {
		d := decisions[name]
		b.Run(name, func(b *testing.B) {
			c := compile(b, permission.Spec{Engine: d.layer})
			b.ReportAllocs()
			for b.Loop() {
				permission.Explain(c, d.info, d.input)
			}
			per := float64(b.Elapsed()) / float64(b.N)
			b.ReportMetric(per/baseline(func() { json.Valid(d.input) }), "x-valid")
			if d.info.Name == "shell" {
				b.ReportMetric(per/baseline(func() { argv.Lex(twoSegments) }), "x-lex")
			}
		})
	}
}

// BenchmarkManyRules reports as x-20 what a call that no rule matches costs against 1,000 rules, in ratio to 20.
func BenchmarkManyRules(b *testing.B) {
	for name, many := range map[string]func(n int) permission.Layer{
		"any tool": manyRules,
		"patterns": func(n int) (l permission.Layer) {
			for i := range n {
				l.Deny = append(l.Deny, argvRule(fmt.Sprintf("program%d **", i)))
			}
			return l
		},
		"domains": func(n int) (l permission.Layer) {
			for i := range n {
				l.Ask = append(l.Ask, domains("fetch", fmt.Sprintf("*.host%d.example", i)))
			}
			return l
		},
	} {
		b.Run(name, func(b *testing.B) {
			info, input := tool.Info{Name: "shell", Risk: tool.Execute}, shell(twoSegments)
			if name == "domains" {
				info, input = tool.Info{Name: "fetch", Risk: tool.Network}, json.RawMessage(`{"url":"https://www.example.com/x"}`)
			}
			few, c := compile(b, permission.Spec{Engine: many(20)}), compile(b, permission.Spec{Engine: many(1000)})
			for b.Loop() {
				permission.Explain(c, info, input)
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/baseline(func() { permission.Explain(few, info, input) }), "x-20")
		})
	}
}

// BenchmarkCompile measures what is paid once for a policy.
func BenchmarkCompile(b *testing.B) {
	l := manyRules(1000)
	for b.Loop() {
		compile(b, permission.Spec{Engine: l})
	}
}

// baseline returns the nanoseconds that f takes, measured in the same run.
func baseline(f func()) float64 {
	const least = 50 * time.Millisecond
	n := 0
	begin := time.Now()
	for time.Since(begin) < least {
		for range 100 {
			f()
		}
		n += 100
	}
	return float64(time.Since(begin)) / float64(n)
}

// A decision that reads no command allocates the input that it returns and, for a rule, the rule.
func TestDecisionsAllocateLittle(t *testing.T) {
	for name, most := range map[string]float64{"allow, 20 rules": 1, "deny, 20 rules": 2, "allow, 1000 rules": 1} {
		d := decisions[name]
		c := compile(t, permission.Spec{Engine: d.layer})
		permission.Explain(c, d.info, d.input)
		runtime.GC() // what is pooled by encoding/json is there again
		require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { permission.Explain(c, d.info, d.input) }), most, name)
	}
}
