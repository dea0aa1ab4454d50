package demo

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"text/template"
)

// configText is a configuration as a person would write it: who keeps a demo finds it there.
var configText = template.Must(template.New(configFile).Funcs(template.FuncMap{"q": quote}).Parse(
	`# The worker of this demo. Start one like it with: starter worker --config assent.yaml
profiles:
  {{.Profile}}:
    description: {{if .Script}}Plays a script.{{else}}Asks a real model.
    system: |
      You work in a git worktree with the tools you are given. Look before you change, keep changes small, and run the tests
      before you say that they pass. A call may wait for a person, who may refuse it: then do without. When you are done, say
      in a few sentences what you did.
    limits: {maxTurns: 24}{{end}}
    model: {{q .Model}}
    tools: [files, shell, exec, report_progress, escalate]
    permissions: {preset: standard}
    isolation: {kind: worktree, repo: {{q .Name}}}
models:
{{- if .Script}}
  scripted:
    scripts: { {{- .Script}}: script.yaml}
{{- else}}
  {{.Asked.Provider}}:
    models: [{{q .Asked.Model}}]
{{- with .Asked.API}}
    api: {{.}}{{end}}
{{- with .Asked.BaseURL}}
    baseURL: {{q .}}{{end}}
{{- with .Asked.KeyEnv}}
    keyEnv: {{.}}{{end}}
{{- end}}
worker:
  dir: .
  blobs: blobs
  grantKeyFile: grant.key
  worktrees:
    repos: { {{- q .Name}}: {{q .Repo}}}
    root: work
  shell:
    env:{{range .Env}}
      {{.Name}}: {{q .Value}}{{else}} {}{{end}}
`))

// quote makes a YAML scalar of any text: a JSON string is one.
func quote(s string) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(s)
	return strings.TrimSuffix(b.String(), "\n"), err
}

type variable struct{ Name, Value string }

func (d *Demo) config() []byte {
	var b strings.Builder
	name, script := provider+":"+scriptName, scriptName
	if d.Model != (Asked{}) {
		name, script = d.Model.Full(), ""
	}
	err := configText.Execute(&b, struct {
		Profile, Model, Script, Name, Repo string
		Asked                              Asked
		Env                                []variable
	}{Profile, name, script, d.repoName(), d.Repo, d.Model, d.env()})
	if err != nil {
		panic(err) // text/template on a fixed text and strings into memory
	}
	return []byte(b.String())
}

// places say where Go finds and keeps its things; they are passed on as they are.
var places = []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOROOT", "GOTMPDIR"}

// env is what commands of the agent get beyond the tools' minimum. The sample needs no network and must not be swayed
// by settings that are meant for other modules.
func (d *Demo) env() []variable {
	set := map[string]string{}
	for _, name := range places {
		if v := os.Getenv(name); v != "" {
			set[name] = v
		}
	}
	if d.Sample {
		maps.Copy(set, map[string]string{"GOENV": "off", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOWORK": "off"})
	}
	var out []variable
	for _, name := range slices.Sorted(maps.Keys(set)) {
		out = append(out, variable{name, set[name]})
	}
	return out
}
