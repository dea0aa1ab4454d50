package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
)

// The nearest agent above counts first, and one further up only if all between them inherit.
func TestLine(t *testing.T) {
	profiles := map[string]config.Profile{}
	for name, inherits := range map[string]bool{"top": false, "middle": true, "alone": false, "child": true} {
		profiles[name] = config.Profile{Name: name, Permissions: permission.Layer{InheritPermissions: inherits,
			Deny: []permission.Rule{{Tool: permission.One(name)}}}}
	}
	find := func(name string) (config.Profile, error) {
		if p, ok := profiles[name]; ok {
			return p, nil
		}
		return config.Profile{}, fault.Configf("agentType", "unknown profile %q", name)
	}
	above := func(names ...string) (out []protocol.Above) {
		for _, n := range names {
			out = append(out, protocol.Above{Profile: n})
		}
		return out
	}
	for _, c := range []struct {
		profile     string
		above, want []protocol.Above
	}{
		{"child", above("top", "middle"), above("top", "middle")},
		{"child", above("top", "alone"), above("alone")},
		{"child", above("nobody", "top"), above("top")},
		{"child", nil, nil},
		{"alone", above("top", "nobody"), nil},
	} {
		got, err := config.Line(find, profiles[c.profile], c.above)
		require.NoError(t, err)
		require.ElementsMatch(t, c.want, got)
	}
	_, err := config.Line(find, profiles["child"], above("top", "nobody"))
	require.True(t, fault.IsConfig(err))

	layer, err := config.ParentLayer(find, []protocol.Parent{{Profile: "top"}, {Profile: "middle", Tighten: &protocol.Tighten{
		Deny: []permission.Rule{{Tool: permission.One("own")}}}}})
	require.NoError(t, err)
	var denied []string
	for _, r := range layer.Deny {
		denied = append(denied, r.String())
	}
	require.Equal(t, []string{"{tool: top}", "{tool: middle}", "{tool: own}"}, denied, "outermost first, the input's rules behind its profile's")
	layer, err = config.ParentLayer(find, nil)
	require.NoError(t, err)
	require.Nil(t, layer)
	_, err = config.ParentLayer(find, []protocol.Parent{{Profile: "nobody"}})
	require.True(t, fault.IsConfig(err))
}
