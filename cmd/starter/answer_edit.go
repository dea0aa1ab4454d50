package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/internal/canonjson"
	"github.com/assent-dev/assent/internal/exit"
)

// edited returns the arguments that the flags bring in place of a question's; nil if they bring none, or the same.
func (a *app) edited(ctx context.Context, f answerFlags, q approval.Approval) (json.RawMessage, error) {
	var text []byte
	var err error
	switch {
	case f.edit:
		text, err = a.inEditor(ctx, q)
	case f.inputFile != "":
		text, err = readArguments(f.inputFile)
	case f.input == "-":
		text, err = io.ReadAll(io.LimitReader(a.in, approval.MaxAnswer+1))
	case f.input != "":
		text = []byte(f.input)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	input, err := object(text)
	if err != nil {
		hint := ""
		if f.edit {
			hint = "nothing was sent; what you wrote: " + keep(text)
		}
		return nil, exit.Failf(hint, "the arguments are refused: %w", err)
	}
	return a.change(q, input)
}

func readArguments(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, Err: fmt.Errorf("read arguments: %w", err)}
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, approval.MaxAnswer+1))
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, Err: fmt.Errorf("read arguments: %w", err)}
	}
	return text, nil
}

// object takes a JSON object as it is written: numbers keep their digits.
func object(text []byte) (json.RawMessage, error) {
	if len(text) > approval.MaxAnswer {
		return nil, fmt.Errorf("they have more than %d bytes", approval.MaxAnswer)
	}
	var short bytes.Buffer
	switch err := json.Compact(&short, text); {
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("they are empty")
	case err != nil:
		return nil, fmt.Errorf("they are not JSON: %w", err)
	case short.Bytes()[0] != '{':
		return nil, errors.New("they are no JSON object")
	}
	if _, err := canonjson.Canonical(short.Bytes()); err != nil {
		return nil, err
	}
	return short.Bytes(), nil
}

// change shows what is different; arguments that were left as they were are no edit.
func (a *app) change(q approval.Approval, input json.RawMessage) (json.RawMessage, error) {
	if err := readable(q); err != nil {
		return input, nil // there is nothing to compare with
	}
	before, err := canonjson.Canonical(q.Input)
	if err != nil {
		return input, nil
	}
	after, err := canonjson.Canonical(input)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(before, after) {
		a.note("the arguments are left as they were")
		return nil, nil
	}
	for _, line := range a.difference(q.Input, input) {
		fmt.Fprintf(a.err, "  %s\n", line)
	}
	return input, nil
}

// difference lists the members that an edit changes.
func (a *app) difference(before, after json.RawMessage) []string {
	var was, is map[string]json.RawMessage
	if json.Unmarshal(before, &was) != nil || json.Unmarshal(after, &is) != nil {
		return nil
	}
	names := maps.Clone(was)
	if names == nil {
		names = map[string]json.RawMessage{}
	}
	maps.Copy(names, is)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, had := was[name]
		y, has := is[name]
		if had && has && sameValue(x, y) {
			continue
		}
		if had {
			out = append(out, a.errStyle.red(fmt.Sprintf("- %s: %s", oneLine(name, mostLine), oneLine(string(x), mostLine))))
		}
		if has {
			out = append(out, a.errStyle.green(fmt.Sprintf("+ %s: %s", oneLine(name, mostLine), oneLine(string(y), mostLine))))
		}
	}
	return out
}

func sameValue(a, b json.RawMessage) bool {
	x, err := canonjson.Canonical(a)
	if err != nil {
		return false
	}
	y, err := canonjson.Canonical(b)
	return err == nil && bytes.Equal(x, y)
}

// readable says why the arguments of a question cannot be read here; nil if they can.
func readable(q approval.Approval) error {
	var members map[string]json.RawMessage
	switch {
	case len(q.Input) == 0:
		return errors.New("its arguments are not known without a worker")
	case q.Input[0] != '{':
		return errors.New("its arguments are not listed while so many questions wait")
	case json.Unmarshal(q.Input, &members) == nil && len(members) == 1 && members["$blob"] != nil && q.Sealed() != nil:
		return errors.New("its arguments are too large for history and stand in the worker's blob store")
	}
	return nil
}

// inEditor lets a person change the arguments of a question.
func (a *app) inEditor(ctx context.Context, q approval.Approval) ([]byte, error) {
	editor := os.Getenv("VISUAL")
	if editor == "" {
		editor = os.Getenv("EDITOR")
	}
	if editor == "" {
		return nil, exit.Failf("set one, for example EDITOR=vi, or give them: --input '{…}'", "neither VISUAL nor EDITOR names an editor")
	}
	if err := readable(q); err != nil {
		return nil, exit.Failf("give them whole: --input-file FILE", "%s cannot be edited: %w", q.Key, err)
	}
	var text bytes.Buffer
	if err := json.Indent(&text, q.Input, "", "  "); err != nil {
		return nil, exit.Failf("", "%s cannot be edited: its arguments are not JSON", q.Key)
	}
	text.WriteByte('\n')
	path, err := temporary(text.Bytes())
	if err != nil {
		return nil, fmt.Errorf("edit %q: %w", q.Key, err)
	}
	defer func() { _ = os.Remove(path) }()
	if err := a.open(ctx, editor, path); err != nil {
		return nil, exit.Failf("nothing was sent", "the editor %q failed: %w", editor, err)
	}
	after, err := readArguments(path)
	if err != nil {
		return nil, exit.Failf("nothing was sent", "the editor %q left no file: %w", editor, err)
	}
	return after, nil
}

// open runs an editor, which may have arguments of its own, on the terminal.
func (a *app) open(ctx context.Context, editor, path string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", path)
	if runtime.GOOS == "windows" {
		words := strings.Fields(editor)
		cmd = exec.CommandContext(ctx, words[0], append(words[1:], path)...)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.in, a.screen, a.err
	if a.json() {
		cmd.Stdout = a.err
	}
	return cmd.Run()
}

// temporary writes a file that only its user can read.
func temporary(text []byte) (string, error) {
	file, err := os.CreateTemp("", "assent-*.json")
	if err != nil {
		return "", err
	}
	_, err = file.Write(text)
	return file.Name(), errors.Join(err, file.Close())
}

// keep saves what a person wrote and says where.
func keep(text []byte) string {
	path, err := temporary(text)
	if err != nil {
		return oneLine(string(text), mostLine)
	}
	return path
}
