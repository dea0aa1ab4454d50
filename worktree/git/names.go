package git

import (
	"strings"
	"unicode/utf8"
)

// validName reports whether a tree may hold an entry of that name: what git refuses on any system is refused
// here, so that no disguise of .git or of the folder above is ever written or read.
func validName(name string, symlink bool) bool {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return false
	}
	return !namesGit(name) && (!symlink || !namesModules(name, true))
}

// validLink reports whether a link may stand in a folder, of which each part is a valid name: git takes no link
// below anything that may be .gitmodules.
func validLink(dir string) bool {
	for part := range strings.SplitSeq(dir, "/") {
		if namesModules(part, false) {
			return false
		}
	}
	return true
}

// namesGit reports whether a file system that folds case, drops invisible characters (HFS+) or trailing dots and
// spaces, or knows short names and streams (NTFS) would take name for .git.
func namesGit(name string) bool {
	for part := range strings.SplitSeq(name, `\`) {
		part, _, _ = strings.Cut(part, ":")
		if part = strings.TrimRight(part, ". "); fold(part, ".git") || fold(part, "git~1") {
			return true
		}
	}
	return fold(visible(name), ".git")
}

// namesModules is namesGit for .gitmodules, which git would read from wherever a link points. last says that name ends a
// path: short names and streams are looked for in other places only before a colon.
func namesModules(name string, last bool) bool {
	if fold(visible(name), ".gitmodules") {
		return true
	}
	for name != "" {
		part, rest, more := strings.Cut(name, `\`)
		name = rest
		part, _, stream := strings.Cut(part, ":")
		part = strings.TrimRight(part, ". ")
		if (stream || last && !more) && (fold(part, ".gitmodules") || shortModules(part)) {
			return true
		}
	}
	return false
}

// fold compares without the case of ASCII letters, which is all that git folds.
func fold(name, plain string) bool { return len(name) == len(plain) && strings.EqualFold(name, plain) }

// shortModules reports a name that NTFS may give to .gitmodules as a short one: gitmod~1 to ~4, and then six characters
// of a hash of which git knows the value, cut short for a long number.
func shortModules(name string) bool {
	before, number, ok := strings.Cut(strings.ToLower(name), "~")
	switch {
	case !ok || number == "" || number[0] < '1' || number[0] > '9' || strings.Trim(number, "0123456789") != "":
		return false
	case before == "gitmod":
		return len(number) == 1 && number[0] <= '4'
	}
	return strings.HasPrefix("gi7eba", before) && len(before)+1+len(number) == 8
}

// visible drops the code points that HFS+ ignores, and what follows a byte that is no UTF-8: there git takes the name to end.
func visible(name string) string {
	plain := true
	for i := 0; i < len(name) && plain; i++ {
		plain = name[i] < utf8.RuneSelf
	}
	if plain {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		if r == utf8.RuneError && n == 1 || r == 0xfffe || r == 0xffff {
			break
		}
		i += n
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
