package layout

import (
	"fmt"
	"strings"
)

// The marks between which ARCHITECTURE.md holds the table.
const (
	beginMark = "<!-- floors: written by `go test ./internal/layout -update` -->\n"
	endMark   = "<!-- end of floors -->\n"
)

// Table is the map as Markdown, top floor first, as one reads a house.
func Table(rooms []Room) string {
	var b strings.Builder
	b.WriteString("| floor | package | job | third-party modules it may import |\n|---|---|---|---|\n")
	top := 0
	for _, r := range rooms {
		top = max(top, r.Floor)
	}
	for floor := top; floor >= 0; floor-- {
		label := fmt.Sprint(floor)
		for _, r := range rooms {
			if r.Floor != floor {
				continue
			}
			third := make([]string, len(r.Third))
			for i, m := range r.Third {
				third[i] = "`" + m + "`"
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", label, r.Dir, r.Job, strings.Join(third, " "))
			label = ""
		}
	}
	return b.String()
}

// Replace returns page with the table between its marks.
func Replace(page, table string) (string, error) {
	before, rest, found := strings.Cut(page, beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !found || !ended {
		return "", fmt.Errorf("find the table: the page needs the lines %q and %q", strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	return before + beginMark + table + endMark + after, nil
}
