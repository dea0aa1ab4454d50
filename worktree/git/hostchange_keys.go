package git

import (
	"regexp"
	"strings"
)

// programKeys are the configuration keys whose value git, or a program that comes with it, runs, or that make it read
// such keys from elsewhere. A star stands for any subsection. They are those of `git help --config` up to git 2.53, with
// those of programs that are run by git's name: git-lfs, git-svn, git-send-email.
var programKeys = []string{
	"core.hookspath", "core.fsmonitor", "core.sshcommand", "core.editor", "core.pager", "core.askpass", "core.gitproxy",
	"core.alternaterefscommand", "core.attributesfile", "core.virtualfilesystem", "core.worktree", "core.bare",
	"extensions.*", "sequence.editor", "pager.*", "alias.*", "hook.*", "gc.recentobjectshook", "maintenance.*",
	"filter.*.clean", "filter.*.smudge", "filter.*.process", "diff.external", "diff.*.command", "diff.*.textconv",
	"merge.*.driver", "mergetool.*.cmd", "mergetool.*.path", "difftool.*.cmd", "difftool.*.path", "guitool.*.cmd",
	"interactive.difffilter", "trailer.*.command", "trailer.*.cmd", "tar.*.command", "init.templatedir",
	"credential.helper", "credential.*.helper", "gpg.program", "gpg.*.program", "gpg.ssh.defaultkeycommand",
	"include.path", "includeif.*", "protocol.*", "url.*.insteadof", "url.*.pushinsteadof", "http.proxy", "http.*.proxy",
	"remote.*.uploadpack", "remote.*.receivepack", "remote.*.vcs", "remote.*.proxy",
	"uploadpack.packobjectshook", "uploadarchive.*", "receive.procreceiverefs", "submodule.*.update",
	"browser.*.cmd", "browser.*.path", "web.browser", "help.browser", "man.viewer", "man.*.cmd", "man.*.path", "instaweb.*",
	"sendemail.*", "imap.tunnel", "svn.authorsprog", "svn-remote.*.authorsprog",
	"lfs.customtransfer.*", "lfs.extension.*", "lfs.standalonetransferagent", "lfs.*.standalonetransferagent",
}

// Keys that run a program by some values only; git itself writes harmless ones when it makes branches, remotes and submodules.
var (
	nameKeys    = []string{"branch.*.remote", "branch.*.pushremote", "remote.pushdefault"}
	addressKeys = []string{"submodule.*.url", "remote.*.url", "remote.*.pushurl"}
)

// runsPrograms reports whether a setting can make git run a program.
func runsPrograms(key, value string) bool {
	for _, p := range programKeys {
		if keyMatches(p, key) {
			return true
		}
	}
	for _, p := range nameKeys {
		if keyMatches(p, key) {
			// In the place of a name an address may stand.
			return strings.HasPrefix(value, "-") || strings.ContainsAny(value, ":/")
		}
	}
	for _, p := range addressKeys {
		if keyMatches(p, key) {
			return strange(value)
		}
	}
	return false
}

// strange reports an address that is a remote helper, an option, or a repository that lies somewhere here.
func strange(address string) bool {
	return strings.Contains(address, "::") || strings.HasPrefix(address, "-") || strings.HasPrefix(address, "/") ||
		strings.HasPrefix(address, ".") || strings.HasPrefix(address, "file:")
}

func keyMatches(pattern, key string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return key == pattern
	}
	return len(key) >= len(before)+len(after) && strings.HasPrefix(key, before) && strings.HasSuffix(key, after)
}

// uncovers reports a key whose removal makes git run or read something else that was there all the time.
func uncovers(key string) bool {
	for _, name := range []string{"core.hookspath", "core.worktree", "core.bare", "core.fsmonitor", "credential.helper"} {
		if strings.HasSuffix(key, " "+name) {
			return true
		}
	}
	return strings.Contains(key, " protocol.") || strings.Contains(key, " extensions.") || key == ".git" || key == "commondir"
}

// inWorktree reports one of the files that say where a linked worktree belongs.
func inWorktree(key string) bool {
	return strings.HasPrefix(key, "worktrees/") && (strings.HasSuffix(key, "/commondir") || strings.HasSuffix(key, "/gitdir"))
}

var userinfo = regexp.MustCompile(`//[^/@\s]*@`)

// withoutSecret drops user and password of an address in the name of a key, such as `url.<address>.insteadof`.
func withoutSecret(key string) string { return userinfo.ReplaceAllString(key, "//***@") }
