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
	if disguises(name, ".git", "git~1") {
		return false
	}
	// A linked .gitmodules would be read by git from wherever it points.
	return !symlink || !disguises(name, ".gitmodules", "gitmod~1") && !shortModules(name)
}

// shortModules reports a name that NTFS may give to .gitmodules as a short one: gitmod~1 to ~4, and then six characters
// of a hash of which git knows the value, cut short for a long number.
func shortModules(name string) bool {
	part := name[strings.LastIndexByte(name, '\\')+1:]
	if i := strings.IndexByte(part, ':'); i >= 0 {
		part = part[:i]
	}
	before, number, ok := strings.Cut(strings.ToLower(strings.TrimRight(part, ". ")), "~")
	switch {
	case !ok || number == "" || number[0] < '1' || number[0] > '9' || strings.Trim(number, "0123456789") != "":
		return false
	case before == "gitmod":
		return len(number) == 1 && number[0] <= '4'
	}
	return strings.HasPrefix("gi7eba", before) && len(before)+1+len(number) == 8
}

// disguises reports whether a file system that folds case, drops invisible characters (HFS+) or trailing dots and
// spaces, or knows short names and streams (NTFS) would take name for the given one.
func disguises(name, plain, short string) bool {
	for part := range strings.SplitSeq(name, `\`) {
		ntfs := part
		if i := strings.IndexByte(ntfs, ':'); i >= 0 {
			ntfs = ntfs[:i]
		}
		ntfs = strings.TrimRight(ntfs, ". ")
		if strings.EqualFold(ntfs, plain) || strings.EqualFold(ntfs, short) {
			return true
		}
	}
	return strings.EqualFold(visible(name), plain)
}

// visible drops the code points that HFS+ ignores.
func visible(name string) string {
	plain := true
	for i := 0; i < len(name) && plain; i++ {
		plain = name[i] < utf8.RuneSelf
	}
	if plain {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, name)
}
