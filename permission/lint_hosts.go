package permission

import (
	"slices"
	"strings"
)

// host is a command of a program that runs programs, or code, of the caller's choice.
type host struct {
	words []string // the subcommand
	why   string
	// options is true if its options do so wherever they stand; else its first operand is what runs.
	options bool
	// takes are the options in front of the subcommand or operand that take a word of their own.
	takes []string
}

// opens reports whether a pattern, given by the words behind the program, leaves to the caller what runs.
func (h host) opens(words []string) bool {
	left := h.words
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "**", w == "*" && len(left) == 0:
			return true
		case len(left) > 0 && w == left[0]:
			left = left[1:]
		case slices.Contains(h.takes, w) && i+1 < len(words) && words[i+1] != "**":
			i++
		case strings.HasPrefix(w, "-"), len(left) == 0 && h.options:
		default:
			return false
		}
	}
	return false
}

// behind says of the programs that the matcher looks behind what they run, where it is not a program of the arguments.
var behind = map[string]string{"find": "runs any program with -exec, and deletes with -delete"}

const (
	shellText  = "runs any text with -c, and any script"
	anyCode    = "runs any code: with an option for it, or from a file"
	itsFile    = "runs whatever its file says, and can be given another file"
	itsArgs    = "runs the program that its arguments name"
	itsScripts = "runs scripts of the package, and installs packages that run their own"
	remote     = "runs any command in another place, and options of its own run programs here"
	shellOut   = "can start a shell"
	downloads  = "fetches and runs packages"
)

var hosts = func() map[string][]host {
	m := map[string][]host{}
	add := func(names, why string, options bool, takes string, subcommands ...string) {
		if len(subcommands) == 0 {
			subcommands = []string{""}
		}
		for _, name := range strings.Fields(names) {
			for _, sub := range subcommands {
				// Of several subcommands the empty one is the program alone.
				m[name] = append(m[name], host{strings.Fields(sub), why, options && (sub != "" || len(subcommands) == 1), strings.Fields(takes)})
			}
		}
	}
	add("sh bash dash ash ksh mksh zsh rbash", shellText, false, "-o")
	add("python python2 python3 pypy pypy3 ipython", anyCode, false, "-W -X")
	add("node nodejs deno bun ruby irb perl php lua luajit Rscript julia groovy scala java jshell osascript pwsh powershell tclsh expect guile ghci iex erl elixir",
		anyCode, false, "-r --require -I")
	add("fish csh tcsh nu xonsh busybox toybox", anyCode, false, "")
	add("awk gawk mawk nawk", "can run programs with system() and write files", false, "-F -v -f")
	add("sed gsed", "can run programs and write files with its commands e and w", false, "-f")
	add("make gmake bmake", "runs whatever its file says, and --eval and SHELL= say more", true, "-C -f -I -j")
	add("just task rake ninja cmake meson scons ant mvn mvnw gradle gradlew bazel earthly invoke nox tox", itsFile, false, "-f -C")
	add("npm pnpm yarn", itsScripts, false, "--prefix -C --dir --cwd -w --workspace --filter")
	add("npm pnpm yarn", "runs any script of the package", false, "--prefix -C --dir --cwd -w --workspace --filter", "run", "run-script")
	add("npm pnpm yarn", downloads, true, "--prefix -C --dir --cwd", "exec", "dlx", "x", "install", "i", "add", "create", "init", "explore")
	add("npx bunx pnpx uvx", downloads, true, "")
	add("pip pip3", "installs packages that run their own code", true, "", "", "install", "download", "wheel")
	add("uv pipx poetry pipenv pdm hatch conda", itsArgs, true, "", "", "run")
	add("bundle gem", itsArgs, true, "", "", "exec", "install")
	add("cargo", "runs build scripts, aliases and programs", true, "", "", "run", "install")
	add("go", "runs programs: run, generate, tool, and -exec and -toolexec of others", false, "-C")
	add("go", "runs any package, downloaded if need be", true, "-C", "run", "generate", "tool", "install")
	add("docker podman nerdctl", "runs containers, with any folder of the host in them", false, "-H --host --context -c")
	add("docker podman nerdctl", "runs any program, with any folder of the host in reach", true, "-H --host --context -c",
		"run", "exec", "create", "container run", "container exec", "compose", "build", "buildx")
	add("kubectl oc helm", remote, false, "-n --namespace --context --kubeconfig")
	add("kubectl oc", remote, true, "-n --namespace --context --kubeconfig", "exec", "run", "debug", "cp", "edit", "config")
	add("ssh slogin mosh telnet nc ncat netcat socat", remote, true, "")
	add("scp sftp rsync", "runs programs with options such as -e, -S and -o ProxyCommand", true, "")
	add("tar bsdtar gtar", "runs programs with options such as --to-command and --checkpoint-action", true, "")
	add("zip", "runs programs with -TT", true, "")
	add("git", "runs programs: -c sets aliases, pagers and editors, and subcommands take commands", false, gitTakes)
	add("git", "runs the commands that it is given or that it configures", true, gitTakes,
		"config", "submodule", "bisect", "rebase", "difftool", "mergetool", "filter-branch", "grep", "worktree")
	add("git", "runs programs with options such as --upload-pack, --receive-pack and -c", true, gitTakes,
		"clone", "fetch", "pull", "push", "ls-remote", "archive", "remote")
	add("vi vim nvim view ex ed emacs nano less more man info", shellOut, true, "")
	add("gdb lldb sqlite3 psql mysql mongo mongosh redis-cli ftp irb", shellOut, true, "")
	add("su runuser pkexec systemd-run unshare nsenter chroot setsid stdbuf ionice chrt taskset flock watch entr parallel strace ltrace gtime script screen tmux daemonize start-stop-daemon caffeinate setarch linux32 linux64 firejail bwrap proot faketime unbuffer rlwrap dbus-run-session xvfb-run",
		itsArgs, false, "-u -g -n -c -p -e -o")
	add("at batch crontab", "runs commands later", true, "")
	return m
}()

const gitTakes = "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix"
