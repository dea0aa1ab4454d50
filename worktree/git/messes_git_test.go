package git

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// common returns the git directory that a tree shares with its host, admin the one of its own.
func common(t *testing.T, dir string) string {
	return git(t, dir, "rev-parse", "--path-format=absolute", "--git-common-dir")
}

func admin(t *testing.T, dir string) string { return git(t, dir, "rev-parse", "--absolute-git-dir") }

// gitMesses are what agents do with git, and to it.
var gitMesses = []mess{
	{name: "hard reset to an older commit", status: "d later\n", host: func(t *testing.T, host string) {
		put(t, host, "later", "l\n")
		commitAll(t, host)
	}, do: func(t *testing.T, dir string) { git(t, dir, "reset", "-q", "--hard", "HEAD~1") }},
	{name: "soft and mixed reset", status: "m README.md\na one\n", do: func(t *testing.T, dir string) {
		put(t, dir, "one", "1\n")
		put(t, dir, "README.md", "reset\n")
		commitAll(t, dir)
		git(t, dir, "reset", "-q", "--soft", "HEAD~1")
		git(t, dir, "reset", "-q")
	}},
	{name: "switch to another branch of the host", status: "m README.md\na side\n", host: func(t *testing.T, host string) {
		git(t, host, "checkout", "-q", "-b", "side")
		put(t, host, "side", "s\n")
		put(t, host, "README.md", "side\n")
		commitAll(t, host)
		git(t, host, "checkout", "-q", "main")
	}, do: func(t *testing.T, dir string) { git(t, dir, "checkout", "-q", "side") }},
	{name: "a branch of its own in the host", status: "a one\n", changes: []string{"refs/heads/main", "refs/heads/mine"}, do: func(t *testing.T, dir string) {
		git(t, dir, "checkout", "-q", "-b", "mine")
		put(t, dir, "one", "1\n")
		commitAll(t, dir)
		git(t, dir, "update-ref", "refs/heads/main", "HEAD")
	}},
	{name: "orphan branch, everything removed", do: func(t *testing.T, dir string) {
		git(t, dir, "checkout", "-q", "--orphan", "fresh")
		git(t, dir, "rm", "-rqf", ".")
		put(t, dir, "only", "o\n")
		commitAll(t, dir)
		put(t, dir, "only", "o2\n")
	}, warns: 1},
	{name: "amended base", status: "m README.md\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "amended\n")
		git(t, dir, "commit", "-qa", "--amend", "-m", "amended")
	}},
	{name: "rebase in the middle of a conflict", status: "m README.md\n", do: func(t *testing.T, dir string) {
		conflict(t, dir)
		_, err := tryGit(dir, nil, "rebase", "theirs")
		require.Error(t, err)
	}},
	{name: "merge in the middle of a conflict", status: "m README.md\n", do: func(t *testing.T, dir string) {
		conflict(t, dir)
		_, err := tryGit(dir, nil, "merge", "theirs")
		require.Error(t, err)
	}},
	{name: "cherry-pick, revert, bisect", status: "m README.md\n", do: func(t *testing.T, dir string) {
		conflict(t, dir)
		git(t, dir, "revert", "--no-edit", "HEAD")
		git(t, dir, "cherry-pick", "theirs")
		git(t, dir, "bisect", "start", "theirs", "HEAD~2")
		git(t, dir, "checkout", "-q", "theirs")
	}},
	{name: "stash", status: "a kept\n", changes: []string{"refs/stash", "stash entries"}, do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "stashed\n")
		put(t, dir, "untracked", "stashed too\n")
		git(t, dir, "stash", "push", "-qu")
		put(t, dir, "kept", "k\n")
	}},
	{name: "gc with every reflog expired", status: "m README.md\na one\n", do: func(t *testing.T, dir string) {
		put(t, dir, "one", "1\n")
		commitAll(t, dir)
		git(t, dir, "checkout", "-q", "--orphan", "fresh")
		git(t, dir, "commit", "-qm", "fresh")
		put(t, dir, "README.md", "after\n")
		git(t, dir, "reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
		git(t, dir, "gc", "-q", "--prune=now")
	}},
	{name: "git clean and restore", do: func(t *testing.T, dir string) {
		put(t, dir, "x.log", "l\n")
		put(t, dir, "junk", "j\n")
		put(t, dir, "README.md", "junk\n")
		git(t, dir, "clean", "-qfdx")
		git(t, dir, "restore", ".")
	}},
	{name: "index by hand", status: "a added\n", do: func(t *testing.T, dir string) {
		put(t, dir, "added", "a\n")
		git(t, dir, "rm", "-q", "--cached", "README.md")
		git(t, dir, "add", "-N", "added")
		git(t, dir, "update-index", "--chmod=+x", "no-eol")
		git(t, dir, "update-index", "--add", "--cacheinfo", "100644", git(t, dir, "rev-parse", "HEAD:README.md"), "only/in/index")
	}},
	{name: "index deleted", status: "m README.md\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "x\n")
		require.NoError(t, os.Remove(filepath.Join(admin(t, dir), "index")))
	}},
	{name: "index garbage, lock left", status: "m README.md\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "x\n")
		a := admin(t, dir)
		put(t, a, "index", "garbage")
		put(t, a, "index.lock", "")
		put(t, a, "HEAD.lock", "")
	}},
	{name: "HEAD garbage", status: "m README.md\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "x\n")
		put(t, admin(t, dir), "HEAD", "not a head\n")
	}},
	{name: "own git directory gone", status: "m README.md\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "x\n")
		require.NoError(t, os.RemoveAll(admin(t, dir)))
	}},
	{name: "redirected to another repository", status: "m README.md\n", do: func(t *testing.T, dir string) {
		other := repo(t)
		put(t, dir, "README.md", "x\n")
		put(t, dir, ".git", "gitdir: "+filepath.Join(other, ".git")+"\n")
		commitAll(t, dir)
	}},
	{name: ".git is a link, then a FIFO's name", status: "m README.md\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "x\n")
		replaceBy(t, dir, ".git", func(path string) error { return os.Symlink("/dev/zero", path) })
	}},
	{name: "the host made bare by GIT_DIR and init", status: "a x\n", changes: []string{"config core.bare"}, do: func(t *testing.T, dir string) {
		put(t, dir, "x", "x\n")
		// What git init does to the host when it is called with the tree's git directory.
		git(t, dir, "config", "core.bare", "true")
	}, after: func(t *testing.T, host string) { git(t, host, "config", "core.bare", "false") }},
	{name: "configuration changed", status: "m README.md\nm run.sh\n", do: func(t *testing.T, dir string) {
		for _, set := range [][2]string{{"core.fileMode", "false"}, {"core.autocrlf", "true"}, {"core.excludesFile", "/nonexistent/rules"}, {"core.symlinks", "false"}, {"core.ignoreCase", "true"}, {"core.worktree", "/"}} {
			git(t, dir, "config", set[0], set[1])
		}
		require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o644))
		put(t, dir, "README.md", "# hello\r\n\r\nworld\r\n")
	}, after: func(t *testing.T, host string) {
		for _, key := range []string{"core.autocrlf", "core.excludesFile", "core.symlinks", "core.ignoreCase", "core.worktree"} {
			git(t, host, "config", "--unset", key)
		}
		git(t, host, "config", "core.fileMode", "true")
	}, changes: []string{"config core.autocrlf", "config core.excludesfile", "config core.filemode", "config core.ignorecase", "config core.symlinks", "config core.worktree"}},
	{name: "configuration garbage", status: "m README.md\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "x\n")
		shared := common(t, dir)
		require.NoError(t, os.Rename(filepath.Join(shared, "config"), filepath.Join(shared, "config.good")))
		put(t, shared, "config", "[core\nbroken")
	}, after: func(t *testing.T, host string) {
		require.NoError(t, os.Rename(filepath.Join(host, ".git", "config.good"), filepath.Join(host, ".git", "config")))
	}},
	{name: "sparse checkout turned on", status: "m README.md\nd src/deep/er/leaf.txt\nd src/main.go\n", do: func(t *testing.T, dir string) {
		git(t, dir, "sparse-checkout", "set", "spa ce")
		put(t, dir, "README.md", "sparse\n")
	}, after: func(t *testing.T, host string) {
		git(t, host, "config", "--unset", "extensions.worktreeConfig")
	}},
	{name: "attributes changed", warns: 1, says: []string{"rules of the base"}, unlike: "git goes by the new attributes",
		status: "a .gitattributes\nm README.md\nm crlf.txt\n", do: func(t *testing.T, dir string) {
			put(t, dir, ".gitattributes", "* text eol=lf filter=evil\n*.md binary\n")
			put(t, dir, "crlf.txt", "one\r\ntwo\r\nTHREE\r\n")
			put(t, dir, "README.md", "# hello\r\n")
		}},
	{name: "attributes of the repository changed", status: "m README.md\n", changes: []string{"info/attributes"}, unlike: "git goes by the new attributes",
		do: func(t *testing.T, dir string) {
			put(t, common(t, dir), "info/attributes", "* text eol=lf\n")
			put(t, dir, "README.md", "# hello\r\n")
		}, after: func(t *testing.T, host string) {
			require.NoError(t, os.Remove(filepath.Join(host, ".git/info/attributes")))
		}},
	{name: "force-added ignored files", status: "a kept\n", says: []string{"x.log", "build/"}, do: func(t *testing.T, dir string) {
		put(t, dir, "x.log", "log\n")
		put(t, dir, "build/out", "o\n")
		put(t, dir, "kept", "k\n")
		git(t, dir, "add", "-f", "x.log", "build/out", "kept")
		git(t, dir, "commit", "-qm", "forced")
	}},
	{name: "tracked files under ignored names", status: "m build/keep\nm old.log\n", says: []string{"build/other", "new.log"}, host: func(t *testing.T, host string) {
		put(t, host, "old.log", "o\n")
		put(t, host, "build/keep", "k\n")
		git(t, host, "add", "-f", "old.log", "build/keep")
		git(t, host, "commit", "-qm", "ignored but tracked")
	}, do: func(t *testing.T, dir string) {
		put(t, dir, "old.log", "o2\n")
		put(t, dir, "build/keep", "k2\n")
		put(t, dir, "build/other", "x\n")
		put(t, dir, "new.log", "x\n")
	}},
	{name: "ignore rules lifted", warns: 1, status: "m .gitignore\n", says: []string{"x.log"}, do: func(t *testing.T, dir string) {
		put(t, dir, ".gitignore", "!*.log\n")
		put(t, dir, "x.log", "log\n")
	}},
	{name: ".gitignore deleted, made a folder, made a link", warns: 3, says: []string{"x.log"}, do: func(t *testing.T, dir string) {
		replaceBy(t, dir, ".gitignore", func(path string) error { return os.Mkdir(path, 0o777) })
		put(t, dir, ".gitignore/x", "x\n")
		put(t, dir, "src/.gitignore", "main.go\n")
		require.NoError(t, os.Symlink("README.md", filepath.Join(dir, ".gitattributes")))
		put(t, dir, "x.log", "l\n")
	}, status: "a .gitattributes\nd .gitignore\na .gitignore/x\na src/.gitignore\n"},
	{name: "nested repository with commits, nested worktree, nested bare one", warns: 3, says: []string{`"lib" is a repository`, `"wt" is a repository`}, do: func(t *testing.T, dir string) {
		put(t, dir, "lib/a", "a\n")
		git(t, filepath.Join(dir, "lib"), "init", "-q")
		commitAll(t, filepath.Join(dir, "lib"))
		git(t, dir, "worktree", "add", "-q", "--detach", filepath.Join(dir, "wt"))
		git(t, dir, "init", "-q", "--bare", "bare.git")
	}},
	{name: "submodule moved to another commit, with edits", warns: 1, says: []string{`"dep" is a submodule`}, status: "m README.md\n", host: submodule, do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "x\n")
		git(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
		put(t, dir, "dep/README.md", "inside\n")
		commitAll(t, filepath.Join(dir, "dep"))
		put(t, dir, "dep/more", "m\n")
	}, after: func(t *testing.T, host string) { git(t, host, "config", "--remove-section", "submodule.dep") }},
	{name: "submodule removed", status: "m .gitmodules\nd dep\n", host: submodule, do: func(t *testing.T, dir string) { git(t, dir, "rm", "-q", "dep") }},
	{name: "submodule replaced by a file", status: "t dep\n", host: submodule, do: func(t *testing.T, dir string) {
		replaceBy(t, dir, "dep", func(path string) error { return os.WriteFile(path, []byte("file\n"), 0o666) })
	}},
	{name: "submodule replaced by a link", status: "t dep\n", host: submodule, do: func(t *testing.T, dir string) {
		replaceBy(t, dir, "dep", func(path string) error { return os.Symlink("src", path) })
	}},
	{name: "submodule filled with plain files", warns: 1, says: []string{`"dep" is a submodule`}, status: "a x\n", host: submodule, do: func(t *testing.T, dir string) {
		put(t, dir, "dep/plain", "p\n")
		put(t, dir, "x", "x\n")
	}},
	{name: "new submodule", warns: 2, says: []string{`"sub" is a repository`}, do: func(t *testing.T, dir string) {
		git(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", repo(t), "sub")
	}, after: func(t *testing.T, host string) { git(t, host, "config", "--remove-section", "submodule.sub") }},
	{name: "replaced objects", status: "m README.md\n", do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "x\n")
		put(t, dir, "evil", "other content\n")
		git(t, dir, "replace", "-f", git(t, dir, "rev-parse", "HEAD:README.md"), git(t, dir, "hash-object", "-w", "evil"))
		require.NoError(t, os.Remove(filepath.Join(dir, "evil")))
	}, after: func(t *testing.T, host string) {
		git(t, host, "replace", "-d", git(t, host, "--no-replace-objects", "rev-parse", "HEAD:README.md"))
	}},
	{name: "alternates and shallow written", status: "m README.md\n", changes: []string{"objects/info/alternates", "shallow"}, do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "x\n")
		put(t, common(t, dir), "objects/info/alternates", filepath.Join(repo(t), ".git/objects")+"\n")
		put(t, common(t, dir), "shallow", git(t, dir, "rev-parse", "HEAD")+"\n")
	}},
	{name: "hooks and tags", status: "m README.md\n", changes: []string{"config core.hookspath", "hooks/post-checkout", "refs/tags/v1"}, do: func(t *testing.T, dir string) {
		put(t, dir, "README.md", "x\n")
		git(t, dir, "tag", "v1")
		put(t, common(t, dir), "hooks/post-checkout", "#!/bin/sh\nexit 1\n")
		git(t, dir, "config", "core.hooksPath", "/nonexistent")
	}},
	{name: "references packed, objects repacked", status: "a one\n", do: func(t *testing.T, dir string) {
		put(t, dir, "one", "1\n")
		commitAll(t, dir)
		git(t, dir, "pack-refs", "--all")
		git(t, dir, "repack", "-qad")
		git(t, dir, "prune-packed")
	}},
}

// conflict makes two commits that change the same line, one of them at the branch theirs.
func conflict(t *testing.T, dir string) {
	put(t, dir, "README.md", "theirs\n")
	git(t, dir, "commit", "-qam", "theirs")
	git(t, dir, "branch", "theirs")
	git(t, dir, "reset", "-q", "--hard", "HEAD~1")
	put(t, dir, "README.md", "ours\n")
	git(t, dir, "commit", "-qam", "ours")
}

// submodule gives the host a submodule dep.
func submodule(t *testing.T, host string) {
	from := repo(t)
	git(t, host, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "dep")
	git(t, host, "commit", "-qm", "submodule")
}
