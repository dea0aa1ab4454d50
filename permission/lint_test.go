package permission_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/tool"
)

// lintTools are some tools as a file's reader knows them.
var lintTools = []tool.Info{
	{Name: "read_file", Risk: tool.Read, Parameters: json.RawMessage(`{"type":"object","properties":{"path":{}}}`)},
	{Name: "write_file", Risk: tool.Write, Parameters: json.RawMessage(`{"type":"object","properties":{"path":{}}}`)},
	{Name: "delete_file", Risk: tool.Destructive},
	{Name: "shell", Risk: tool.Execute, Parameters: json.RawMessage(`{"type":"object","properties":{"command":{}}}`)},
	{Name: "exec", Risk: tool.Execute, Parameters: json.RawMessage(`{"type":"object","properties":{"argv":{}}}`)},
	{Name: "fetch", Risk: tool.Network},
}

func layerOf(t testing.TB, text string) permission.Layer {
	t.Helper()
	var l permission.Layer
	if text != "" {
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
	}
	require.NoError(t, l.Check(""), text)
	return l
}

// lint returns the findings about an engine and a profile p, each as `key kind: message`.
func lint(t testing.TB, engine, profile string, tools ...string) []string {
	t.Helper()
	p := permission.LintPolicy{Engine: layerOf(t, engine), Tools: lintTools,
		Sets: map[string][]string{"files": {"read_file", "write_file", "delete_file"}}}
	readonly := len(tools) > 0 && tools[0] == "readonly"
	if readonly {
		tools = tools[1:]
	}
	p.Profiles = []permission.LintProfile{{Key: "p", Layer: layerOf(t, profile), Tools: tools, Readonly: readonly}}
	var out []string
	for _, f := range permission.Lint(p) {
		out = append(out, fmt.Sprintf("%s %s: %s", f.Key, f.Kind, f.Message))
	}
	require.Equal(t, fmt.Sprint(permission.Lint(p)), fmt.Sprint(permission.Lint(p)), "the same each time")
	return out
}

// engineLint is what lint says of a policy, by its engine.
var engineLint = map[string][]string{
	// Nothing to say.
	``: nil,
	`{"deny":[{"risk":"destructive"},{"tool":"shell","argv":["rm **","git push --force **"]}],"ask":[{"tool":"shell","argv":"git push **"},{"risk":"undeclared"}],
	  "vetted":[{"tool":"shell","argv":["go test **","go vet **","git diff **","git status","git log **","npm test **","make test","cargo test **","./scripts/check.sh **"]}]}`: nil,
	`{"ask":[{"tool":["deploy_service","send_email"]},{"tool":"shell","argv":"npm publish **"},{"tool":"shell"}]}`:                          nil,
	`{"ask":[{"tool":"shell"},{"tool":"shell","argv":"git push **"}],"vetted":[{"tool":"shell","argv":["git push origin"," git status"]}]}`: {"engine.vetted[0].argv[0] dead: never allows: engine.ask[1].argv \"git push **\" asks about it"},
	`{"deny":[{"tool":"fetch","domains":["*.example.com"]}],"ask":[{"tool":"fetch"},{"tool":"fetch","domains":["example.com"]}]}`:           nil,
	`{"deny":[{"tool":"shell","argv":["rm **"]},{"tool":"exec","argv":["rm -rf **"]}]}`:                                                     {`engine.deny[1].argv[0] literal: is literal: the same options in another order or spelling are not denied; ask for "rm **", or deny it`},

	// Shadowed by rules for the whole tool or its risk.
	`{"deny":[{"tool":"shell"},{"tool":"shell","argv":["rm **"]}]}`:                     {`engine.deny[1] shadowed: never decides: engine.deny[0] {tool: shell} denies first`},
	`{"deny":[{"risk":["read","execute"]},{"tool":"shell","argv":["rm **"]}]}`:          {`engine.deny[1] shadowed: never decides: engine.deny[0] {risk: [read, execute]} denies first`},
	`{"deny":[{"tool":"a"},{"tool":["a","b"]}]}`:                                        {`engine.deny[1].tool[0] shadowed: never decides: engine.deny[0] {tool: a} denies first`},
	`{"deny":[{"tool":"a"},{"tool":"a","reason":"again"}]}`:                             {`engine.deny[1] shadowed: never decides: engine.deny[0] {tool: a} denies first`},
	`{"deny":[{"risk":"destructive"}],"ask":[{"risk":["destructive","write"]}]}`:        {`engine.ask[0].risk[0] shadowed: never decides: engine.deny[0] {risk: destructive} denies first`},
	`{"deny":[{"risk":"undeclared"}],"ask":[{"risk":"undeclared"},{"tool":"mystery"}]}`: {`engine.ask[0] shadowed: never decides: engine.deny[0] {risk: undeclared} denies first`},
	`{"ask":[{"risk":"execute"},{"tool":"shell"}]}`:                                     {`engine.ask[1] shadowed: never decides: engine.ask[0] {risk: execute} asks first`},
	`{"ask":[{"tool":"shell"},{"tool":"shell","argv":"git push **"}]}`:                  {`engine.ask[1] shadowed: never decides: engine.ask[0] {tool: shell} asks first`},
	`{"deny":[{"risk":["read","write","network"]},{"risk":["execute","destructive","undeclared"]}],"ask":[{"tool":"mystery"}]}`: {
		`engine.ask[0] shadowed: never decides: engine.deny[1] {risk: [execute, destructive, undeclared]} denies first`},

	// Shadowed by patterns.
	`{"deny":[{"tool":"shell","argv":"rm **"},{"tool":"shell","argv":"rm -rf **"}]}`:                                  {`engine.deny[1] shadowed: never decides: engine.deny[0].argv "rm **" denies first`},
	`{"deny":[{"tool":"shell","argv":["rm **","rm -rf **"]}]}`:                                                        {`engine.deny[0].argv[1] shadowed: never decides: engine.deny[0].argv[0] "rm **" takes it in`},
	`{"deny":[{"tool":"shell","argv":["rm -rf **","rm **"]}]}`:                                                        {`engine.deny[0].argv[0] shadowed: never decides: engine.deny[0].argv[1] "rm **" takes it in`},
	`{"deny":[{"tool":"shell","argv":["rm **","rm **"]}]}`:                                                            {`engine.deny[0].argv[1] shadowed: never decides: engine.deny[0].argv[0] "rm **" takes it in`},
	`{"deny":[{"tool":"shell","argv":["rm x","rm *","'rm' x y","rm * *"]}]}`:                                          {`engine.deny[0].argv[1] literal: with one word more the command is not denied; "rm **" is it with any words behind`, `engine.deny[0].argv[3] literal: with one word more the command is not denied; "rm * **" is it with any words behind`, `engine.deny[0].argv[0] shadowed: never decides: engine.deny[0].argv[1] "rm *" takes it in`, `engine.deny[0].argv[2] shadowed: never decides: engine.deny[0].argv[3] "rm * *" takes it in`},
	`{"deny":[{"tool":"shell","argv":["curl **","sudo curl **","/usr/bin/curl -s x"]}]}`:                              {`engine.deny[0].argv[1] shadowed: never decides: engine.deny[0].argv[0] "curl **" takes it in`, `engine.deny[0].argv[2] shadowed: never decides: engine.deny[0].argv[0] "curl **" takes it in`},
	`{"deny":[{"tool":"shell","argv":"git push **"}],"ask":[{"tool":"shell","argv":["git push origin","git pull"]}]}`: {`engine.ask[0].argv[0] shadowed: never decides: engine.deny[0].argv "git push **" denies first`},
	`{"ask":[{"tool":"shell","argv":"git **"},{"tool":"shell","argv":"git push **"}]}`:                                {`engine.ask[1] shadowed: never decides: engine.ask[0].argv "git **" asks first`},
	`{"deny":[{"tool":"shell","argv":"rm **"},{"tool":["shell","exec"],"argv":"rm x"}]}`:                              nil,
	`{"deny":[{"tool":["shell","exec"],"argv":"rm **"},{"tool":["shell","exec"],"argv":"rm x"}]}`:                     {`engine.deny[1] shadowed: never decides: engine.deny[0].argv "rm **" denies first`},
	`{"deny":[{"tool":"shell","argv":["rm","rm * * **"]},{"tool":"shell","argv":"rm **"}]}`:                           nil,
	`{"deny":[{"tool":"shell","argv":["rm","rm * **"]},{"tool":"shell","argv":"rm **"}]}`:                             {`engine.deny[1] shadowed: never decides: engine.deny[0].argv[1] "rm * **" denies first`},

	// Shadowed by domains, advisory ones aside.
	`{"deny":[{"tool":"fetch","domains":["*.example.com","example.org"]}],"ask":[{"tool":"fetch","domains":["a.example.com","EXAMPLE.org.","*.b.example.com","example.com"]}]}`: {
		`engine.ask[0].domains[0] shadowed: never decides: engine.deny[0].domains[0] "*.example.com" denies first`,
		`engine.ask[0].domains[1] shadowed: never decides: engine.deny[0].domains[1] example.org denies first`,
		`engine.ask[0].domains[2] shadowed: never decides: engine.deny[0].domains[0] "*.example.com" denies first`},
	`{"deny":[{"tool":"fetch"},{"tool":"fetch","domains":["a.com"]}],"ask":[{"tool":"b","domains":["c.com"]}]}`: {
		`engine.deny[1] shadowed: never decides: engine.deny[0] {tool: fetch} denies first`,
		`engine.ask[0].tool advisory: a domain rule is enforced for fetch alone; for b it is a note in the decision, and stops nothing`},
	`{"ask":[{"tool":"fetch","domains":["a.com"]},{"tool":"shell","argv":"x"},{"tool":"fetch","domains":"a.com"}]}`: {`engine.ask[2] shadowed: never decides: engine.ask[0].domains[0] a.com asks first`},

	`{"deny":[{"tool":"fetchers","domains":["a.com"]},{"tool":"fetch","domains":["a.com"]}]}`: {`engine.deny[0].tool advisory: a domain rule is enforced for fetch alone; for fetchers it is a note in the decision, and stops nothing`},

	// Vetted lines that cannot help.
	`{"deny":[{"tool":"shell"}],"vetted":[{"tool":"shell","argv":"ls"}]}`:                                 {`engine.vetted[0].tool dead: never allows: engine.deny[0] {tool: shell} denies shell`},
	`{"deny":[{"risk":"execute"}],"vetted":[{"tool":["mine","exec"],"argv":"ls"}]}`:                       {`engine.vetted[0].tool[1] dead: never allows: engine.deny[0] {risk: execute} denies exec`},
	`{"deny":[{"tool":"shell","argv":"npm **"}],"vetted":[{"tool":"shell","argv":["npm test **","ls"]}]}`: {`engine.vetted[0].argv[0] dead: never allows: engine.deny[0].argv "npm **" denies it`},
	`{"ask":[{"tool":"shell","argv":"npm **"}],"vetted":[{"tool":"shell","argv":["npm test **","ls"]}]}`:  {`engine.vetted[0].argv[0] dead: never allows: engine.ask[0].argv "npm **" asks about it`},
	`{"ask":[{"tool":"shell"}],"vetted":[{"tool":"shell","argv":"npm test"}]}`:                            nil,
	`{"vetted":[{"tool":"shell","argv":["eval ls","ls"]}]}`:                                               {`engine.vetted[0].argv[0] dead: never allows: eval`},
	`{"vetted":[{"tool":"shell","argv":["ls **"]},{"tool":"shell","argv":["ls -l","cat x"]}]}`:            {`engine.vetted[1].argv[0] shadowed: is not needed: engine.vetted[0].argv[0] "ls **" takes it in`},
	`{"vetted":[{"tool":"shell","argv":["ls -l","ls **"]},{"tool":"exec","argv":["ls"]}]}`:                {`engine.vetted[0].argv[0] shadowed: is not needed: engine.vetted[0].argv[1] "ls **" takes it in`},

	// Patterns that say something else.
	`{"deny":[{"tool":"shell","argv":["rm","-rf","x"]}]}`: {`engine.deny[0].argv[0] literal: with one word more the command is not denied; "rm **" is it with any words behind`, `engine.deny[0].argv[2] literal: with one word more the command is not denied; "x **" is it with any words behind`, `engine.deny[0].argv[1] pattern: -rf is a whole command that begins with an option; write a command in one pattern, such as "rm -rf **"`},
	`{"ask":[{"tool":"shell","argv":["'git push' **","npm run test:*"]}],"vetted":[{"tool":"shell","argv":["ls a*","gofmt -l *.go"]}]}`: {
		`engine.vetted[0].argv[0] pattern: a* is that very word: a wildcard is a * or a last ** that stands alone`,
		`engine.ask[0].argv[0] pattern: 'git push' is the name of a program with blanks in it, because of its quotes`,
		`engine.ask[0].argv[1] pattern: test:* is that very word: a wildcard is a * or a last ** that stands alone`},
	`{"deny":[{"tool":"shell","argv":["'[[' x"]},{"tool":"shell","argv":["[[ x"]}]}`: {`engine.deny[0].argv[0] dead: matches no command for certain: reserved word [[`, `engine.deny[1].argv[0] dead: matches no command for certain: syntax error`},

	// A deny pattern that another order of options gets round.
	`{"deny":[{"tool":"shell","argv":["rm -rf **"]}]}`:                                            {`engine.deny[0].argv[0] literal: is literal: the same options in another order or spelling are not denied; ask for "rm **", or deny it`},
	`{"deny":[{"tool":"shell","argv":["rm -rf **"]}],"ask":[{"tool":"shell","argv":"rm **"}]}`:    nil,
	`{"deny":[{"tool":"shell","argv":["rm -rf **"]}],"ask":[{"tool":"shell","argv":"rm -r **"}]}`: {`engine.deny[0].argv[0] literal: is literal: the same options in another order or spelling are not denied; ask for "rm **", or deny it`},
	`{"deny":[{"tool":"shell","argv":["git push --force"]}],"vetted":[{"tool":"shell","argv":"git push origin"}]}`: {
		`engine.deny[0].argv[0] literal: is literal: the same options in another order or spelling are not denied; ask for "git push **", or deny it`},
	`{"ask":[{"tool":"shell","argv":["ls -l **","rm -- x"]}]}`: nil,
	`{"ask":[{"tool":"shell","argv":["ls -l **"]}],"vetted":[{"tool":"shell","argv":"ls **"}]}`: {
		`engine.ask[0].argv[0] literal: is literal, and engine.vetted[0].argv "ls **" lets every other order and spelling of the options run unasked; ask for "ls **", or deny it`},

	// One that one more word, or another path of the program, gets round.
	`{"deny":[{"tool":"shell","argv":"sudo"}]}`: {`engine.deny[0].argv literal: with one word more the command is not denied; "sudo **" is it with any words behind`},
	`{"deny":[{"tool":"shell","argv":["rm *","/bin/dd **"]}]}`: {`engine.deny[0].argv[0] literal: with one word more the command is not denied; "rm **" is it with any words behind`,
		`engine.deny[0].argv[1] literal: is one spelling of the program's path; "dd **" is it under every path`},
	`{"deny":[{"tool":"shell","argv":["rm *","/bin/rm **","rm"]}],"ask":[{"tool":"shell","argv":"rm **"}]}`: nil,
	`{"deny":[{"tool":"shell","argv":["make deploy","git push origin main","sudo **","* x"]}]}`:             nil,
	`{"ask":[{"tool":"shell","argv":["sudo","rm *","/bin/dd **"]}]}`:                                        nil,

	// Names of tools.
	`{"deny":[{"tool":["shel","Shell","read-file","raed_file","shell2","bash","mine"]}]}`: {
		`engine.deny[0].tool[0] tool: no tool is known as shel, did you mean shell`,
		`engine.deny[0].tool[1] tool: no tool is known as Shell, did you mean shell`,
		`engine.deny[0].tool[2] tool: no tool is known as read-file, did you mean read_file`,
		`engine.deny[0].tool[3] tool: no tool is known as raed_file, did you mean read_file`},
	`{"ask":[{"tool":"files"}],"vetted":[{"tool":"shel","argv":"ls"}]}`: {
		`engine.vetted[0].tool tool: no tool is known as shel, did you mean shell`,
		`engine.ask[0].tool tool: files is a set of tools, and rules name tools: read_file, write_file, delete_file`},
	`{"deny":[{"tool":["shell","read_file","mine","delete_file"],"argv":"rm **"}]}`: {`engine.deny[0].tool[1] tool: read_file has no command: an argv rule makes every call of it ask`},
}

func TestLint(t *testing.T) {
	for engine, want := range engineLint {
		t.Run(engine, func(t *testing.T) {
			require.Equal(t, strings.Join(want, "\n"), strings.Join(lint(t, engine, ""), "\n"))
		})
	}
}

func TestLintProfile(t *testing.T) {
	for name, c := range map[string]struct {
		engine, profile string
		tools           []string
		want            []string
	}{
		"engine denies first": {`{"deny":[{"risk":"destructive"}]}`, `{"deny":[{"risk":"destructive"}],"ask":[{"tool":"delete_file"}]}`, nil, []string{
			"p.permissions.deny[0] shadowed: never decides: engine.deny[0] {risk: destructive} denies first",
			"p.permissions.ask[0] shadowed: never decides: engine.deny[0] {risk: destructive} denies first"}},
		"a profile leaves the engine's rules alone": {`{"ask":[{"tool":"shell"},{"risk":"write"}],"vetted":[{"tool":"shell","argv":"ls"}]}`, `{"deny":[{"tool":"shell"}],"preset":"strict"}`, []string{"readonly"}, nil},
		"preset strict":                   {``, `{"preset":"strict","ask":[{"risk":["destructive","write"]}]}`, nil, []string{"p.permissions.ask[0].risk[0] shadowed: never decides: preset strict {risk: destructive} denies first"}},
		"preset asks later":               {``, `{"preset":"standard","ask":[{"risk":"execute","approval":{"deadlineNs":5}}]}`, nil, nil},
		"readonly denies":                 {``, `{"ask":[{"risk":["write","destructive"]}]}`, []string{"readonly"}, []string{"p.permissions.ask[0] shadowed: never decides: readonly isolation {risk: [write, destructive]} denies first"}},
		"engine's vetted":                 {`{"vetted":[{"tool":"shell","argv":"ls **"}]}`, `{"vetted":[{"tool":"shell","argv":"ls -l"}]}`, nil, []string{`p.permissions.vetted[0].argv shadowed: is not needed: engine.vetted[0].argv "ls **" takes it in`}},
		"engine stops vetted":             {`{"deny":[{"tool":"shell","argv":"ls **"}]}`, `{"vetted":[{"tool":"shell","argv":"ls -l"}]}`, nil, []string{`p.permissions.vetted[0].argv dead: never allows: engine.deny[0].argv "ls **" denies it`}},
		"open":                            {``, `{"preset":"open"}`, nil, []string{"p.permissions.preset open: under preset open a tool that declares no risk runs unasked; {risk: undeclared} in ask or deny covers it"}},
		"a profile vets round the engine": {`{"ask":[{"tool":"shell","argv":"git push -f **"}]}`, `{"vetted":[{"tool":"shell","argv":"git push origin"},{"tool":"shell","argv":"ls -l"}],"preset":"standard"}`, nil, nil},
		"a profile vets around the engine": {`{"ask":[{"tool":"shell","argv":"gh pr -d **"}]}`, `{"vetted":[{"tool":"shell","argv":"gh pr **"}]}`, nil, []string{
			`engine.ask[0].argv literal: is literal, and p.permissions.vetted[0].argv "gh pr **" lets every other order and spelling of the options run unasked; ask for "gh pr **", or deny it`}},
		"an ask for a command holds against a profile's vetted": {`{"ask":[{"tool":"shell"},{"tool":"shell","argv":"ls **"}]}`, `{"vetted":[{"tool":"shell","argv":"cat x"}]}`, nil, nil},
		"a parent may cover it":                                 {``, `{"preset":"open","inheritPermissions":true}`, []string{"readonly", "shell"}, nil},
		"open and undeclared":                                   {`{"ask":[{"risk":["undeclared"]}]}`, `{"preset":"open"}`, nil, nil},
		"open, own undeclared":                                  {``, `{"preset":"open","deny":[{"risk":"undeclared"}]}`, nil, nil},
		"listed tools are known":                                {`{"deny":[{"tool":"shel"}]}`, ``, []string{"shel"}, []string{"p.tools[0] tool: no tool is known as shel, did you mean shell"}},
		"readonly with writers": {``, ``, []string{"readonly", "files", "read_file", "write_file", "mine", "shell"}, []string{
			"p.tools[0] readonly: readonly isolation always denies write_file, delete_file, which the model is offered all the same",
			"p.tools[2] readonly: readonly isolation always denies write_file, which the model is offered all the same",
			"p.tools[4] readonly: readonly isolation does not bind shell, which can write whatever it says: ask for it or deny it"}},
		"readonly with a shell that asks": {``, `{"preset":"standard"}`, []string{"readonly", "read_file", "shell"}, nil},
		"a tree with writers":             {``, ``, []string{"files", "shell"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, strings.Join(c.want, "\n"), strings.Join(lint(t, c.engine, c.profile, c.tools...), "\n"))
		})
	}
}

// What a vetted pattern would let run, with a part of the reason; empty for patterns that are fine.
func TestLintRunsPrograms(t *testing.T) {
	for pattern, why := range map[string]string{
		"**": "every command", "* **": "any program", "* x": "any program", "A=b * **": "any program",
		"sh **": "-c", "bash -c **": "-c", "bash -c *": "-c", "/bin/sh **": "-c", "'sh' **": "-c", "sh *": "any script", "zsh -e **": "-c", "bash build.sh **": "", "sh -c 'npm test'": "",
		"env **": "arguments name", "env A=1 **": "arguments name", "env A=1 npm test **": "", "env A=1 npm run **": "any script of the package", "A=1 env **": "arguments name",
		"sudo **": "arguments name", "sudo -u bob **": "arguments name", "sudo *": "arguments name", "sudo make **": "--eval", "sudo cat make **": "", "sudo systemctl status **": "",
		"timeout **": "arguments name", "timeout 5 **": "arguments name", "nohup nice **": "arguments name", "timeout 5 npm test **": "", "time **": "every command", "A=b": "", "A=b **": "every command", "! **": "every command",
		"xargs **": "arguments name", "xargs -n 1 **": "arguments name", "xargs rm **": "", "find **": "-exec", "find . **": "-exec", "find . -name x": "",
		"python **": "any code", "python3 *": "any code", "python -m **": "any code", "python -m pytest **": "", "python manage.py **": "", "python -c **": "any code", "/usr/bin/python3 -u **": "any code",
		"node **": "any code", "node --test **": "any code", "node -r x **": "any code", "node server.js **": "", "perl -e **": "any code", "ruby **": "any code", "awk **": "system()", "sed **": "commands e and w",
		"git **": "-c", "git -C x **": "-c", "git -C **": "-c", "git *": "-c", "git --no-pager **": "-c", "git diff **": "", "git log **": "", "git push **": "--receive-pack", "git push origin **": "--receive-pack",
		"git push origin *": "--receive-pack", "git push origin main": "", "git config **": "configures", "git -C x rebase **": "configures", "git submodule **": "configures", "git status": "",
		"make **": "--eval", "make test **": "--eval", "make test": "", "make -j4 **": "--eval", "make -C sub **": "--eval",
		"npm run **": "any script", "npm run *": "any script", "npm **": "scripts of the package", "npm run test **": "", "npm test **": "", "npm ci": "", "npm install **": "fetches", "npx **": "fetches", "npx eslint **": "fetches",
		"yarn **": "scripts of the package", "pnpm run **": "any script", "pip install **": "own code", "pip list **": "", "pip **": "own code",
		"ssh **": "another place", "ssh host **": "another place", "ssh host uptime": "", "scp **": "ProxyCommand", "rsync -a **": "-e", "tar -xf **": "--to-command", "tar tf x.tar": "",
		"docker run **": "any folder", "docker run --rm **": "any folder", "docker run *": "any folder", "docker **": "any folder", "docker exec c **": "any folder", "docker ps **": "", "docker --context x run **": "any folder", "docker container exec **": "any folder", "kubectl exec **": "another place", "kubectl -n x get **": "", "kubectl **": "another place",
		"go **": "run, generate", "go run **": "any package", "go test **": "", "go vet **": "", "cargo **": "build scripts", "cargo test **": "", "vim **": "start a shell", "sqlite3 x **": "start a shell", "strace **": "arguments name", "crontab **": "later",
		"ls **": "", "cat *": "", "grep -rn **": "", "rg **": "", "echo **": "", "./check.sh **": "", "npmx **": "",
	} {
		t.Run(pattern, func(t *testing.T) {
			line, err := json.Marshal(map[string]any{"vetted": []any{map[string]any{"tool": "shell", "argv": pattern}}})
			require.NoError(t, err)
			got := strings.Join(lint(t, string(line), ""), "\n")
			if why == "" {
				require.Empty(t, got)
				return
			}
			require.Contains(t, got, "engine.vetted[0].argv runs-programs: ")
			require.Contains(t, got, why)
			require.NotContains(t, got, "\n", "one finding")
		})
	}
}

// The tools of a server are known when it is asked, so no name of one is a slip of the pen.
func TestLintServers(t *testing.T) {
	for profile, want := range map[string][]string{
		`{}`: {"engine.deny[0].tool[0] tool: fs is a server, and rules name tools: those of it begin with sh",
			"p.tools[0] readonly: readonly isolation does not bind tools of fs that declare no risk: {risk: undeclared} in ask or deny covers them",
			"p.tools[1] readonly: readonly isolation does not bind shell, which can write whatever it says: ask for it or deny it"},
		`{"preset":"strict"}`: {"engine.deny[0].tool[0] tool: fs is a server, and rules name tools: those of it begin with sh"},
	} {
		p := permission.LintPolicy{Engine: layerOf(t, `{"deny":[{"tool":["fs","shel"]}]}`), Tools: lintTools, Servers: map[string]string{"fs": "sh"},
			Profiles: []permission.LintProfile{{Key: "p", Layer: layerOf(t, profile), Tools: []string{"fs", "shell"}, Readonly: true}}}
		var got []string
		for _, f := range permission.Lint(p) {
			got = append(got, fmt.Sprintf("%s %s: %s", f.Key, f.Kind, f.Message))
		}
		require.Equal(t, want, got)
	}
}

// What nobody has checked is no reason to fall over.
func TestLintUnchecked(t *testing.T) {
	require.Empty(t, permission.Lint(permission.LintPolicy{Engine: permission.Layer{Deny: []permission.Rule{{}}, Vetted: []permission.Vetted{{}}}}))
}

// A policy that a machine wrote is not compared with itself for minutes.
func TestLintLargePolicy(t *testing.T) {
	var many []string
	for i := range 6000 {
		many = append(many, fmt.Sprintf("rm x%d", i))
	}
	engine := permission.Layer{Deny: []permission.Rule{{Tool: permission.One("shell"), Argv: permission.Many(many...)}}}
	limit := []permission.Finding{{Key: "engine", Kind: permission.FindLimit, Message: "the rules are too many to be compared with each other"}}
	require.Equal(t, limit, permission.Lint(permission.LintPolicy{Engine: engine}))
	engine.Deny[0].Argv.Values = many[:2500]
	require.Empty(t, permission.Lint(permission.LintPolicy{Engine: engine}))
	require.Equal(t, limit, permission.Lint(permission.LintPolicy{Engine: engine, Profiles: make([]permission.LintProfile, 160)}))
}

// The advice on a path is a pattern, whatever the quotes in the path, and there is none where a name alone would mean
// something else.
func TestLintOfQuotedPaths(t *testing.T) {
	for pattern, want := range map[string]string{
		`"/usr/bin/rm" **`: `"rm **"`, `'/opt/my tools/x' **`: `"x **"`, `\/bin/rm **`: `"rm **"`, "/bin/'r m' **": "", `"/a b/c d" **`: "",
		`/bin/'*' **`: "", `"/a/$x" **`: "", `/bin/{a,b} **`: "", `/bin/~ **`: "", `"/bin/-x" **`: "", `A=/b/c **`: "", `/a/'' **`: "",
		strings.Repeat("x", 1<<16): "",
	} {
		policy, err := json.Marshal(map[string]any{"deny": []any{map[string]any{"tool": "shell", "argv": pattern}}})
		require.NoError(t, err)
		var advice string
		for _, f := range lint(t, string(policy), "") {
			if strings.Contains(f, "one spelling") {
				advice = f
			}
		}
		if want == "" {
			require.Empty(t, advice, "%.80s", pattern)
		} else {
			require.Contains(t, advice, want+" is it under every path", pattern)
		}
	}
}
