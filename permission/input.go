package permission

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/assent-dev/assent/permission/argv"
)

// maxCommands bounds the work on an input that repeats a key.
const maxCommands = 4

// input is what rules read of an argument value.
type input struct {
	commands []argv.Command
	// noCommand says why argv rules cannot judge the whole of it; empty if they can.
	noCommand string
	hosts     []string
	// noHost says why domain rules cannot judge the whole of it; empty if they can.
	noHost string
}

// readInput reads `command`, `argv` and `url`. A key that is written twice, or in another case, is one that a tool's
// decoder may prefer, so nobody can say what it will run; what can be read is judged all the same, so that a deny
// is never lost.
func readInput(raw json.RawMessage) input {
	var in input
	seen := map[string]bool{}
	err := members(raw, func(key string, value json.RawMessage) error {
		for _, want := range []string{"command", "argv", "url"} {
			if strings.EqualFold(key, want) {
				in.read(want, value, key != want || seen[want])
				seen[want] = true
			}
		}
		return nil
	})
	if err != nil {
		in.noCommand, in.noHost = "the input is not an object", "the input is not an object"
	} else {
		if in.noCommand == "" && len(in.commands) == 0 {
			in.noCommand = "the input has no command"
		}
		if in.noHost == "" && len(in.hosts) == 0 {
			in.noHost = "the input has no url"
		}
	}
	return in
}

func (in *input) read(key string, value json.RawMessage, again bool) {
	var fault string
	switch key {
	case "command":
		var text *string
		if json.Unmarshal(value, &text) != nil || text == nil {
			fault = "the command is not a string"
			break
		}
		if undecoded(*text) {
			fault = "the command has characters that cannot be decoded"
		}
		in.addCommand(func() argv.Command { return argv.Lex(*text) })
	case "argv":
		args, ok := stringList(value)
		if !ok {
			fault = "argv is not a list of strings"
			break
		}
		if slices.ContainsFunc(args, undecoded) {
			fault = "argv has characters that cannot be decoded"
		}
		in.addCommand(func() argv.Command { return argv.LexArgv(args) })
	case "url":
		var text *string
		if json.Unmarshal(value, &text) != nil || text == nil {
			fault = "the url is not a string"
			break
		}
		if undecoded(*text) {
			fault = "the url has characters that cannot be decoded"
			break
		}
		host, ok := hostOf(*text)
		if !ok {
			fault = "the url has no host that can be read"
			break
		}
		in.hosts = append(in.hosts, host)
	}
	if again {
		fault = "the input has more than one " + key
	}
	if fault == "" {
		return
	}
	if key == "url" {
		in.noHost = fault
	} else {
		in.noCommand = fault
	}
}

// undecoded reports the character that JSON decoding puts in place of bytes that are no UTF-8 and of half a surrogate pair:
// what the tool gets may be something else than what was read here.
func undecoded(text string) bool { return strings.ContainsRune(text, utf8.RuneError) }

func stringList(value json.RawMessage) ([]string, bool) {
	var words []*string
	if json.Unmarshal(value, &words) != nil || words == nil {
		return nil, false
	}
	out := make([]string, len(words))
	for i, w := range words {
		if w == nil {
			return nil, false
		}
		out[i] = *w
	}
	return out, true
}

func (in *input) addCommand(lex func() argv.Command) {
	if len(in.commands) < maxCommands {
		in.commands = append(in.commands, lex())
	}
}
