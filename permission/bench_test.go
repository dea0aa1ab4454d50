package permission_test

import (
	"testing"

	"github.com/assent-dev/assent/permission"
)

func BenchmarkDecide(b *testing.B) {
	c := compile(b, permission.Spec{
		Engine: permission.Layer{
			Deny:   []permission.Rule{argvRule("rm -rf **", "git push --force **")},
			Ask:    []permission.Rule{argvRule("git push **", "npm publish"), {Tool: permission.One("deploy_service")}},
			Vetted: []permission.Vetted{{Tool: permission.One("shell"), Argv: permission.Many("go test **", "git diff **")}},
		},
		Profile: permission.Layer{Preset: permission.Standard},
	})
	input := shell("cd x && go test ./... && git diff --stat")
	for b.Loop() {
		permission.Explain(c, shellTool, input)
	}
}
