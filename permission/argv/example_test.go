package argv_test

import (
	"fmt"

	"github.com/assent-dev/assent/permission/argv"
)

func Example() {
	compile := func(texts ...string) argv.Table {
		var patterns []argv.Pattern
		for _, text := range texts {
			p, err := argv.Compile(text)
			if err != nil {
				panic(err)
			}
			patterns = append(patterns, p)
		}
		return argv.NewTable(patterns...)
	}
	tables := argv.Tables{Allow: compile("npm test", "git **"), Deny: compile("rm **")}

	for _, command := range []string{"npm test && git status", "npm test; curl x", "npm test || sudo rm -rf ."} {
		result := argv.Lex(command).Match(tables)
		fmt.Printf("%s: %s\n", result.Outcome, command)
		for _, s := range result.Segments {
			fmt.Printf("\t%s: %s by %q\n", s.Segment, s.Verdict, s.Pattern)
		}
	}
	pattern, _ := argv.Suggest("curl 'x y'")
	fmt.Println("to allow it:", pattern)
	// Output:
	// allow: npm test && git status
	// 	npm test: allow by "npm test"
	// 	git status: allow by "git **"
	// ask: npm test; curl x
	// 	npm test: allow by "npm test"
	// 	curl x: ask by ""
	// deny: npm test || sudo rm -rf .
	// 	npm test: allow by "npm test"
	// 	sudo rm -rf .: deny by "rm **"
	// to allow it: curl 'x y'
}
