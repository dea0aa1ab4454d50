package mcp

import (
	"slices"

	"github.com/assent-dev/assent/fault"
)

// Check reports servers that cannot be used together: two of one name, two with one prefix, or two whose tools have one name
// as far as they have been listed. Errors are *fault.ConfigError.
func Check(servers ...*Server) error {
	byPrefix, byTool := map[string]string{}, map[string]string{}
	var names []string
	for _, s := range servers {
		if s == nil {
			return fault.Configf("mcp", "a server is nil")
		}
		if slices.Contains(names, s.cfg.Name) {
			return fault.Configf("mcp."+s.cfg.Name, "there are two servers of this name")
		}
		names = append(names, s.cfg.Name)
		prefix := *s.cfg.Prefix
		if other, taken := byPrefix[prefix]; taken && prefix != "" {
			return s.cfg.errorf("prefix", "%q is that of the server %q too; their tools could not be told apart", prefix, other)
		}
		byPrefix[prefix] = s.cfg.Name
		for _, name := range s.names() {
			if other, taken := byTool[name]; taken {
				return s.cfg.errorf("prefix", "the tool %q is one of the server %q too; give one of them another prefix", name, other)
			}
			byTool[name] = s.cfg.Name
		}
	}
	return nil
}
