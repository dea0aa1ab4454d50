package permission

import "github.com/assent-dev/assent/fault"

// Preset names a built-in set of rules.
type Preset string

// The presets. The empty preset is none, which is the chain without a preset.
const (
	Strict   Preset = "strict"
	Standard Preset = "standard"
	Open     Preset = "open"
)

// Presets lists the presets from strictest to mildest.
func Presets() []Preset { return []Preset{Strict, Standard, Open} }

// CompilePreset returns the deny and ask rules of a preset. A cell that says allow has no rule, so a tool that needs
// approval asks under every preset. An unknown preset is a *fault.ConfigError.
func CompilePreset(p Preset) (deny, ask []Rule, err error) {
	switch p {
	case "", Open:
		return nil, nil, nil
	case Strict:
		return []Rule{{Risk: One("destructive")}},
			[]Rule{{Risk: Many("write", "network", "execute")}, {Risk: One(undeclared)}}, nil
	case Standard:
		return nil, []Rule{{Risk: Many("network", "execute", "destructive")}, {Risk: One(undeclared)}}, nil
	}
	e := fault.Configf("", "unknown preset %q", string(p))
	for _, known := range Presets() {
		e.Allowed = append(e.Allowed, string(known))
	}
	return nil, nil, e
}
