package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assent-dev/assent/worktree"
)

// frozenGit is a git directory in the state folder of a tree that git made. git sees the repository only through
// it: the objects, and of the configuration what was taken from it when the tree was made.
const frozenGit = "git"

// freezeGit writes the frozen git directory.
func (m *gitMaker) freezeGit(ctx context.Context, id string) error {
	dir := m.d.gitDir(id)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for _, sub := range []string{"", "objects", "objects/info", "refs", "info"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	m.d.step("git-folder")
	var err error
	if m.replaced, err = m.askReplaced(ctx); err != nil {
		return err
	}
	if m.sparse, err = m.sparsePatterns(); err != nil {
		return err
	}
	files := []struct{ name, text string }{
		{"HEAD", m.at.Commit + "\n"},
		{"config", m.frozenConfig(filepath.Join(dir, "attributes"))},
		{"objects/info/alternates", filepath.Join(m.h.common, "objects") + "\n"},
		{"packed-refs", m.replaced},
		{"info/attributes", m.h.settings.InfoAttributes},
		{"attributes", m.h.settings.Attributes},
		{"info/sparse-checkout", m.sparse},
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// askReplaced lists the replace refs, in the form of packed-refs: with them git shows other objects than are named.
func (m *gitMaker) askReplaced(ctx context.Context) (string, error) {
	return m.d.ask(ctx, m.h, "for-each-ref", "--format=%(objectname) %(refname)", "refs/replace/")
}

// sparsePatterns returns the host's own patterns, which a new worktree takes over; empty without any.
func (m *gitMaker) sparsePatterns() (string, error) {
	on, err := m.h.config.flag("core.sparsecheckout", false)
	if err != nil || !on {
		return "", err
	}
	return readOptional(filepath.Join(m.h.gitDir, "info", "sparse-checkout"))
}

// keptKeys are the configuration keys that decide what files hold.
var keptKeys = []string{
	"core.autocrlf", "core.eol", "core.filemode", "core.symlinks", "core.ignorecase", "core.precomposeunicode",
	"core.checkroundtripencoding", "core.bigfilethreshold",
}

// frozenConfig is the configuration of the frozen directory: what files depend on, and the commands of the filters
// that were allowed, as they are now. attributes is the copy of core.attributesFile, empty for none.
func (m *gitMaker) frozenConfig(attributes string) string {
	config := m.h.config
	var b strings.Builder
	section := func(name string) { fmt.Fprintf(&b, "[%s]\n", name) }
	line := func(name, value string) { fmt.Fprintf(&b, "\t%s = %s\n", name, configValue(value)) }
	section("core")
	line("repositoryFormatVersion", "1")
	line("bare", "false")
	line("safecrlf", "false")
	line("protectHFS", "true")
	line("protectNTFS", "true")
	if attributes != "" {
		line("attributesFile", attributes)
	}
	for _, key := range keptKeys {
		if s, ok := config[key]; ok {
			if s.Implicit {
				s.Value = "true"
			}
			line(strings.TrimPrefix(key, "core."), s.Value)
		}
	}
	if m.sparse != "" {
		line("sparseCheckout", "true")
		cone, err := config.flag("core.sparsecheckoutcone", true)
		line("sparseCheckoutCone", fmt.Sprint(cone && err == nil))
	}
	section("index")
	line("version", "2")
	line("sparse", "false")
	section("extensions")
	format := config.text("extensions.objectformat")
	if format == "" {
		format = "sha1"
	}
	line("objectFormat", format)
	m.frozenFilters(config, attributes != "", section, line)
	return b.String()
}

// atTop is put before the command of a filter. git runs it in the folder of the files, where any file that it names, and any
// module that an interpreter finds there first, would be a program of the agent.
const atTop = "cd / || exit; "

// frozenFilters adds the commands of the filters that were allowed, for ours to be run away from the files.
func (m *gitMaker) frozenFilters(config gitConfig, ours bool, section func(string), line func(name, value string)) {
	for _, name := range m.d.filters {
		section("filter " + configValue(name))
		for _, part := range []string{"clean", "smudge", "process", "required"} {
			if s, ok := config["filter."+name+"."+part]; ok {
				if s.Implicit {
					s.Value = "true"
				}
				if ours && part != "required" && s.Value != "" {
					s.Value = atTop + s.Value
				}
				line(part, s.Value)
			}
		}
	}
	if !slices.Contains(m.d.filters, "lfs") {
		return
	}
	// git-lfs looks for its objects beside the configuration that it reads.
	section("lfs")
	storage := config.text("lfs.storage")
	if storage == "" {
		storage = "lfs"
	}
	if !filepath.IsAbs(storage) {
		storage = filepath.Join(m.h.common, storage)
	}
	line("storage", storage)
}

// checkTree makes sure that the resolved commit has the resolved tree, and that git would check all of it out.
func (m *gitMaker) checkTree(ctx context.Context, id string) error {
	out, err := m.run(ctx, id, nil, nil, "cat-file", "commit", m.at.Commit)
	if failed(err) {
		return &worktree.MissingError{Object: m.at.Commit}
	}
	if err != nil {
		return err
	}
	if line, _, _ := strings.Cut(string(out), "\n"); line != "tree "+m.at.Tree {
		return badTree("%q is not the tree of commit %s", m.at.Tree, m.at.Commit)
	}
	out, err = m.run(ctx, id, nil, nil, "ls-tree", "-r", "-t", "-z", "--full-tree", m.at.Tree)
	if failed(err) {
		if err = ofGit(err); failed(err) {
			return &worktree.MissingError{Object: m.at.Tree}
		}
	}
	if err != nil {
		return err
	}
	for record := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		head, path, ok := strings.Cut(record, "\t")
		if !ok {
			continue // an empty tree
		}
		name := path[strings.LastIndexByte(path, '/')+1:]
		if !validName(name, strings.HasPrefix(head, "120000 ")) {
			return badTree("tree %s holds the name %q, which git refuses", m.at.Tree, path)
		}
	}
	return nil
}
