package config_test

import (
	"fmt"

	"github.com/assent-dev/assent/config"
)

func ExampleParse() {
	f, err := config.Parse("policy.yaml", []byte(`
engine:
  vetted: [{tool: shell, argv: ["go test **", "git diff **"]}]
  deny: [{risk: destructive}, {tool: shell, argv: ["rm -rf **", "git push --force **"]}]
profiles:
  fixer:
    model: openai:gpt-5.2
    tools: [files, shell]
    permissions: {preset: standard, inheritPermissions: true}
    isolation: {kind: worktree}
    limits: {maxTurns: 20}
    budgetUSD: 2
`))
	if err != nil {
		panic(err)
	}
	p, err := f.Profile("fixer")
	fmt.Println(p.Models, p.Tools, p.Permissions.Preset, p.Limits.MaxTurns, err)
	_, err = config.Parse("policy.yaml", []byte("engine: {deny: [{risk: destrutive}]}"))
	fmt.Println(err)
	// Output:
	// [openai:gpt-5.2] [files shell] standard 20 <nil>
	// policy.yaml:1:24: unknown risk "destrutive"; one of read, write, network, execute, destructive, undeclared
}
