package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/assent-dev/assent/follow"
	"github.com/assent-dev/assent/internal/exit"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
	"github.com/assent-dev/assent/toolbox"
)

// mostPatch bounds the lines of a patch that are printed; the file has them all.
const mostPatch = 200

// finish shows what the agent made, and clears away what the demo needed.
func (a *attendant) finish(ctx context.Context) error {
	end := a.view.end
	patch, err := a.savePatch(ctx)
	if err != nil {
		return errors.Join(err, a.run.Down())
	}
	a.apply = fmt.Sprintf("git -C %s apply --whitespace=nowarn %s", shellQuote(a.run.Repo), shellQuote(a.run.PatchFile()))
	switch {
	case !a.json():
		a.showEnd(patch)
	case patch != nil:
		a.note("patch   %s", a.apply)
	}
	if err := a.run.Down(); err != nil {
		return err
	}
	// A workflow that failed, not an agent that ended in an error: somebody will want the logs.
	broken := end.Result == nil && end.ErrorType != protocol.ErrorConfig
	if err := a.clear(patch != nil, broken); err != nil {
		return err
	}
	if code(end) == exit.Usage {
		return &exit.Error{Code: exit.Usage, Err: errors.New(end.Error)}
	}
	return exit.Code(code(end))
}

// savePatch writes the patch to its file and returns it; nil if there is none or it is empty.
func (a *attendant) savePatch(ctx context.Context) ([]byte, error) {
	for _, art := range a.view.artifacts() {
		if art.Kind != protocol.ArtifactPatch || len(art.Files) == 0 {
			continue
		}
		data, err := readBlob(ctx, a.run.Blobs(), a.view, art.Ref)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(a.run.PatchFile(), data, 0o600); err != nil {
			return nil, fmt.Errorf("write patch: %w", err)
		}
		return data, nil
	}
	return nil, nil
}

// showEnd prints the patch, and the summary with what applies it.
func (a *attendant) showEnd(patch []byte) {
	if patch != nil {
		a.printf("%s\n", a.style.bold("patch"))
		lines := strings.Split(strings.TrimSuffix(string(patch), "\n"), "\n")
		for i, line := range lines {
			if i == mostPatch {
				a.printf("%s\n", a.style.dim(fmt.Sprintf("… and %s in %s", count(len(lines)-mostPatch, "more line"), a.run.PatchFile())))
				break
			}
			a.printf("%s\n", a.patchLine(line))
		}
	}
	a.ended(*a.view.end)
}

// patchLine colours a line of a patch and makes it safe for a terminal.
func (a *attendant) patchLine(line string) string {
	line = visible(line)
	switch {
	case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "diff "):
		return a.style.bold(line)
	case strings.HasPrefix(line, "+"):
		return a.style.green(line)
	case strings.HasPrefix(line, "-"):
		return a.style.red(line)
	}
	return line
}

// visible keeps tabs and writes every other character that could move the cursor or hide as an escape.
func visible(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r == '\t' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// clear removes what the demo needed, and says what is left.
func (a *attendant) clear(patch, broken bool) error {
	switch {
	case a.run.Keep || broken:
		a.note("kept    %s: database, configuration, logs", a.run.Dir())
		return nil
	case !patch:
		return a.run.Remove()
	}
	if err := a.run.Reduce(); err != nil {
		return err
	}
	if a.run.Sample {
		a.note("left    the sample and the patch; remove both with: rm -r %s", shellQuote(a.run.Dir()))
	} else {
		a.note("left    the patch; remove it with: rm -r %s", shellQuote(a.run.Dir()))
	}
	return nil
}

// self is how this program was called, so that what it prints can be pasted.
func self() string {
	const name, path = "starter", "github.com/assent-dev/assent/cmd/starter"
	called := os.Args[0]
	if strings.TrimSuffix(filepath.Base(called), ".exe") != name {
		return name
	}
	// `go run` compiles into a folder of this shape, which is gone afterwards.
	if dir := filepath.Dir(called); filepath.Base(dir) == "exe" && strings.Contains(dir, "go-build") {
		if _, err := os.Stat(filepath.Join("cmd", name, "demo.go")); err == nil {
			return "go run ./cmd/" + name
		}
		return "go run " + path
	}
	if _, err := exec.LookPath(name); err == nil || !strings.ContainsRune(called, filepath.Separator) {
		return name
	}
	return shellQuote(called)
}

// mostOutput bounds the lines of a command's output that are shown.
const mostOutput = 12

// commandOutput shows the end of a command as a terminal would. It reports false for other results.
func (a *attendant) commandOutput(c follow.Call) bool {
	var out toolbox.Output
	if (c.Tool != "shell" && c.Tool != "exec") || c.Result == nil || c.Result.Code != tool.OK || json.Unmarshal(c.Result.Value, &out) != nil {
		return false
	}
	a.printf("  %s  %s  %s\n", pad(string(tool.OK), a.style.green(string(tool.OK)), 5), a.style.bold(c.Tool),
		a.style.dim(strings.TrimSpace(fmt.Sprintf("exit code %d  %s", out.ExitCode, took(c)))))
	text := strings.TrimSpace(out.Stdout + out.Stderr)
	if text == "" {
		return true
	}
	lines := paragraphs(text, protocol.InlineResult)
	for i, line := range lines {
		if i == mostOutput {
			a.printf("         %s\n", a.style.dim("… "+count(len(lines)-mostOutput, "more line")))
			break
		}
		a.printf("         %s\n", line)
	}
	return true
}
