package git

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assent-dev/assent/fault"
)

// forcesPrivate says for which repositories the worker makes every tree private.
func (c *Config) forcesPrivate() (func(repo string) bool, error) {
	for _, name := range c.PrivateRepos {
		if _, ok := c.Repos[name]; !ok {
			return nil, fault.Configf("worktrees.private", "unknown repository %q", name)
		}
	}
	all, names := c.Private, slices.Clone(c.PrivateRepos)
	return func(repo string) bool { return all || slices.Contains(names, repo) }, nil
}

// privateDir is the git directory of a private tree. It lies in the tree, because it is the agent's own: nothing
// here reads it again, and it goes when the tree goes.
func (d *Driver) privateDir(id string) string { return filepath.Join(d.treeDir(id), ".git") }

// makePrivate writes the git directory of a private tree: no remotes, no hooks, no refs but a detached HEAD, and the
// host's objects as alternates, which git reads and never writes. The index follows.
func (d *Driver) makePrivate(r *record, h *host) error {
	for _, dir := range []string{"", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags", "info", "logs"} {
		if err := os.Mkdir(filepath.Join(r.Admin, dir), 0o777); err != nil {
			return fmt.Errorf("make git directory: %w", err)
		}
	}
	d.step("private-made")
	config, err := h.privateConfig(r.Admin)
	if err != nil {
		return err
	}
	from, err := objectFolders(filepath.Join(h.common, "objects"))
	if err != nil {
		return &fault.ConfigError{Key: "worktrees.repos." + h.name, Msg: "its alternates cannot be read", Cause: err}
	}
	// A shallow repository ends where this file says; without it git would miss the parents.
	shallow, err := readOptional(filepath.Join(h.common, "shallow"))
	if err != nil {
		return &fault.ConfigError{Key: "worktrees.repos." + h.name, Msg: "its shallow file cannot be read", Cause: err}
	}
	files := []struct{ name, text string }{
		{"config", config},
		{"objects/info/alternates", strings.Join(from, "\n") + "\n"},
		{"HEAD", r.Resolved.Commit + "\n"},
		{"logs/HEAD", r.firstLog()},
		{"info/exclude", h.settings.InfoExclude},
		{"info/attributes", h.settings.InfoAttributes},
		{privateExcludes, h.settings.Excludes},
		{privateAttributes, h.settings.Attributes},
		{"shallow", shallow},
	}
	for _, f := range files {
		if f.text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(r.Admin, filepath.FromSlash(f.name)), []byte(f.text), 0o666); err != nil {
			return fmt.Errorf("fill git directory: %w", err)
		}
	}
	d.step("private-filled")
	return nil
}

// The contents of the host's core.excludesFile and core.attributesFile, in a private git directory.
const (
	privateExcludes   = "info/excludes-file"
	privateAttributes = "info/attributes-file"
)

// privateConfig is the configuration of a private git directory: what files depend on, said in full so that the
// user's own configuration changes nothing, and the name to commit under.
func (h *host) privateConfig(admin string) (string, error) {
	own, err := h.ownConfig()
	if err != nil {
		return "", err
	}
	s := h.settings
	var b strings.Builder
	fmt.Fprintf(&b, "[core]\n\trepositoryformatversion = 0\n\tfilemode = %t\n\tbare = false\n\tlogallrefupdates = true\n\tautocrlf = %s\n",
		s.FileMode, s.AutoCRLF)
	if s.EOL != "" {
		fmt.Fprintf(&b, "\teol = %s\n", s.EOL)
	}
	if s.Excludes != "" {
		fmt.Fprintf(&b, "\texcludesfile = %s\n", configValue(filepath.Join(admin, privateExcludes)))
	}
	if s.Attributes != "" {
		fmt.Fprintf(&b, "\tattributesfile = %s\n", configValue(filepath.Join(admin, privateAttributes)))
	}
	var user strings.Builder
	for _, key := range []string{"name", "email"} {
		if v := own.text("user." + key); v != "" {
			fmt.Fprintf(&user, "\t%s = %s\n", key, configValue(v))
		}
	}
	if user.Len() > 0 {
		b.WriteString("[user]\n" + user.String())
	}
	return b.String(), nil
}

// configValue quotes a value for a configuration file.
func configValue(v string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(v) + `"`
}

// objectFolders returns an object folder and those that it draws on, by absolute paths: git follows relative ones
// from the first folder only.
func objectFolders(objects string) ([]string, error) {
	out := []string{objects}
	for i := 0; i < len(out); i++ {
		text, err := readOptional(filepath.Join(out[i], "info", "alternates"))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if line == "" || line[0] == '#' {
				continue
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(out[i], line)
			}
			line = filepath.Clean(line)
			if fi, err := os.Stat(line); err == nil && fi.IsDir() && !slices.Contains(out, line) {
				out = append(out, line)
			}
		}
	}
	return out, nil
}
