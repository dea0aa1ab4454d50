package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/tool"
)

// The file as written. Every key is optional except turns and a call's tool.
type (
	script struct {
		Turns     []turn `yaml:"turns"`
		Summaries []turn `yaml:"summaries"`
		Replies   []turn `yaml:"replies"`
	}
	turn struct {
		Say    string `yaml:"say"`
		Calls  []call `yaml:"calls"`
		Usage  usage  `yaml:"usage"`
		Stop   string `yaml:"stop"`
		Expect expect `yaml:"expect"`
		When   *when  `yaml:"when"`
	}
	// when says which requests a reply is for. All that is given has to hold.
	when struct {
		// Prompt is a part of the first message, Contains one of the last.
		Prompt     string      `yaml:"prompt"`
		Contains   string      `yaml:"contains"`
		LastResult *lastResult `yaml:"lastResult"`
		// Turn counts from 1.
		Turn int `yaml:"turn"`
	}
	call struct {
		Tool string  `yaml:"tool"`
		Args any     `yaml:"args"`
		Raw  *string `yaml:"raw"`
		ID   string  `yaml:"id"`
	}
	usage struct {
		InputTokens       int64 `yaml:"inputTokens"`
		CachedInputTokens int64 `yaml:"cachedInputTokens"`
		CacheWriteTokens  int64 `yaml:"cacheWriteTokens"`
		OutputTokens      int64 `yaml:"outputTokens"`
	}
	expect struct {
		LastResult *lastResult `yaml:"lastResult"`
		// Contains is text that the last message must hold: what is to be summarised, or a note of the engine.
		Contains string `yaml:"contains"`
	}
	lastResult struct {
		// Tool is the tool that returned it.
		Tool     string `yaml:"tool"`
		Code     string `yaml:"code"`
		Contains string `yaml:"contains"`
	}
)

var stops = []string{string(model.StopEnd), string(model.StopToolUse), string(model.StopMaxTokens), string(model.StopRefusal)}

var codes = []string{
	string(tool.OK), string(tool.UnknownTool), string(tool.InvalidArguments), string(tool.Denied), string(tool.Blocked),
	string(tool.ToolError), string(tool.ToolTimeout), string(tool.Aborted), string(tool.NonSerializable),
	string(tool.ContractDrift), string(tool.Skipped), string(tool.EffectUnknown), string(tool.EnvironmentLost),
}

// Load reads the script in the file path. Every error is a *fault.ConfigError.
func Load(path string) (*Model, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &fault.ConfigError{File: path, Msg: "cannot read the script", Cause: err}
	}
	return Parse(path, data)
}

// Parse reads a script; name is what errors call it, usually a path. Unknown and duplicate keys, values of the wrong
// kind and contradictions are a *fault.ConfigError with the line and column.
func Parse(name string, data []byte) (*Model, error) {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, yamlError(name, err)
	}
	src := &source{name: name, file: file}
	if docs := slices.DeleteFunc(slices.Clone(file.Docs), func(d *ast.DocumentNode) bool { return d.Body == nil }); len(docs) > 1 {
		return nil, &fault.ConfigError{File: name, Line: docs[1].Body.GetToken().Position.Line, Column: 1, Msg: "a script is one YAML document"}
	}
	var s script
	dec := yaml.NewDecoder(strings.NewReader(string(data)), yaml.Strict())
	if err := dec.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return nil, yamlError(name, err)
	}
	if len(s.Turns) == 0 && len(s.Replies) == 0 {
		return nil, src.errorf("turns", "a script has at least one turn")
	}
	m := &Model{name: name}
	for i, t := range s.Turns {
		at := fmt.Sprintf("turns[%d]", i)
		if t.When != nil {
			return nil, src.errorf(at+".when", "is for replies; a turn comes when it is due")
		}
		played, err := t.compile(src, at, i)
		if err != nil {
			return nil, err
		}
		m.turns = append(m.turns, played)
	}
	for i, t := range s.Replies {
		played, err := t.reply(src, fmt.Sprintf("replies[%d]", i), i)
		if err != nil {
			return nil, err
		}
		m.replies = append(m.replies, played)
	}
	for i, t := range s.Summaries {
		at := fmt.Sprintf("summaries[%d]", i)
		if len(t.Calls) > 0 || t.Expect.LastResult != nil || t.When != nil {
			return nil, src.errorf(at, "a summary has no calls, no last result and no when")
		}
		played, err := t.compile(src, at, i)
		if err != nil {
			return nil, err
		}
		m.summaries = append(m.summaries, played)
	}
	return m, nil
}

// compile checks the turn at a key, whose index is i, and gives every call its final form.
func (t turn) compile(src *source, at string, i int) (played, error) {
	p := played{
		text: t.Say,
		usage: model.Usage{InputTokens: t.Usage.InputTokens, CachedInputTokens: t.Usage.CachedInputTokens,
			CacheWriteTokens: t.Usage.CacheWriteTokens, OutputTokens: t.Usage.OutputTokens},
		stop: model.Stop(t.Stop), contains: t.Expect.Contains,
	}
	if t.Stop != "" && !slices.Contains(stops, t.Stop) {
		e := src.errorf(at+".stop", "unknown stop reason %q", t.Stop)
		e.Allowed = stops
		return played{}, e
	}
	if u := p.usage; min(u.InputTokens, u.OutputTokens, u.CachedInputTokens, u.CacheWriteTokens) < 0 || u.CachedInputTokens > u.InputTokens-u.CacheWriteTokens {
		return played{}, src.errorf(at+".usage", "token counts are not negative and cached ones are a part of the input")
	}
	if p.want = t.Expect.LastResult; p.want != nil {
		if err := p.want.validate(src, at+".expect.lastResult"); err != nil {
			return played{}, err
		}
	}
	for n, c := range t.Calls {
		tc, err := c.compile(src, fmt.Sprintf("%s.calls[%d]", at, n))
		if err != nil {
			return played{}, err
		}
		if tc.ID == "" {
			tc.ID = fmt.Sprintf("call_%d_%d", i+1, n+1)
		}
		p.calls = append(p.calls, tc)
	}
	return p, nil
}

// reply checks the reply at a key. Its calls are numbered apart from those of turns; a provider's ids need not be unique.
func (t turn) reply(src *source, at string, i int) (played, error) {
	w := t.When
	switch {
	case w == nil || *w == when{}:
		return played{}, src.errorf(at+".when", "says which requests the reply is for: prompt, contains, lastResult or turn")
	case w.Turn < 0:
		return played{}, src.errorf(at+".when.turn", "turns count from 1")
	case w.LastResult != nil:
		if err := w.LastResult.validate(src, at+".when.lastResult"); err != nil {
			return played{}, err
		}
	}
	p, err := t.compile(src, at, i)
	p.when = w
	return p, err
}

// validate refuses what says nothing, and codes that do not exist.
func (w *lastResult) validate(src *source, at string) error {
	if w.Code == "" && w.Contains == "" && w.Tool == "" {
		return src.errorf(at, "needs code, contains or tool")
	}
	if w.Code != "" && !slices.Contains(codes, w.Code) {
		e := src.errorf(at+".code", "unknown result code %q", w.Code)
		e.Allowed = codes
		return e
	}
	return nil
}

// compile turns args or raw into what a provider would have sent.
func (c call) compile(src *source, at string) (model.ToolCall, error) {
	tc := model.ToolCall{ID: c.ID, Name: c.Tool}
	switch {
	case c.Tool == "":
		return tc, src.errorf(at+".tool", "a call names its tool")
	case c.Raw != nil && c.Args != nil:
		return tc, src.errorf(at+".raw", "give args or raw, not both")
	case c.Raw != nil && json.Valid([]byte(*c.Raw)):
		tc.Input = json.RawMessage(*c.Raw)
	case c.Raw != nil:
		tc.Raw = *c.Raw
	case c.Args == nil:
		tc.Input = json.RawMessage(`{}`)
	default:
		data, err := json.Marshal(c.Args)
		if err != nil {
			e := src.errorf(at+".args", "not expressible in JSON")
			e.Cause = err
			return tc, e
		}
		tc.Input = data
	}
	return tc, nil
}

// source finds the place of a key for an error.
type source struct {
	name string
	file *ast.File
}

// errorf returns an error at the dotted key, or at the nearest key above it that the file has.
func (s *source) errorf(key, format string, args ...any) *fault.ConfigError {
	e := fault.Configf(key, format, args...)
	e.File, e.Line, e.Column = s.name, 1, 1
	for at := key; at != ""; at = parent(at) {
		path, err := yaml.PathString("$." + at)
		if err != nil {
			continue
		}
		node, err := path.FilterFile(s.file)
		if err != nil || node == nil || node.GetToken() == nil {
			continue
		}
		tk := node.GetToken()
		// The token of a block mapping is the colon of its first pair; its first key is what a reader looks for.
		if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
			tk = m.Values[0].Key.GetToken()
		} else if m, ok := node.(*ast.MappingValueNode); ok {
			tk = m.Key.GetToken()
		}
		e.Line, e.Column = tk.Position.Line, tk.Position.Column
		break
	}
	return e
}

// parent cuts the last step of a dotted key: a.b[1] gives a.b, which gives a.
func parent(key string) string {
	if i := strings.LastIndexAny(key, ".["); i > 0 {
		return key[:i]
	}
	return ""
}

// yamlError keeps what the YAML library knows about the place.
func yamlError(name string, err error) *fault.ConfigError {
	e := &fault.ConfigError{File: name, Msg: err.Error()}
	var y yaml.Error
	if !errors.As(err, &y) {
		return e
	}
	e.Msg = y.GetMessage()
	if tk := y.GetToken(); tk != nil && tk.Position != nil {
		e.Line, e.Column = tk.Position.Line, tk.Position.Column
	}
	e.Excerpt = y.FormatError(false, true)
	return e
}
