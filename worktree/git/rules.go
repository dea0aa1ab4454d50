package git

import "strings"

// pathPattern is one pattern of .gitignore or .gitattributes.
type pathPattern struct {
	text string
	// base is the folder of the file that holds the pattern, without a final slash.
	base     string
	negative bool
	onlyDir  bool
	// name means that the pattern holds no slash and is matched against the last part of a path.
	name bool
}

// parsePattern reads a pattern found in folder base.
func parsePattern(text, base string) pathPattern {
	p := pathPattern{base: base}
	if text, p.negative = strings.CutPrefix(text, "!"); text != "" {
		text, p.onlyDir = strings.CutSuffix(text, "/")
	}
	p.name = !strings.Contains(text, "/")
	if !p.name {
		text = strings.TrimPrefix(text, "/")
	}
	p.text = text
	return p
}

// match reports whether the pattern speaks of path, a slash-separated path from the top.
func (p pathPattern) match(path string, isDir bool) bool {
	if p.onlyDir && !isDir {
		return false
	}
	if p.base != "" {
		rest, ok := strings.CutPrefix(path, p.base+"/")
		if !ok {
			return false
		}
		path = rest
	}
	if p.name {
		return p.text != "" && wildmatch(p.text, path[strings.LastIndexByte(path, '/')+1:], false)
	}
	// git compares what stands before the first special character by itself, and so a `**` after it counts as
	// one at the beginning of a pattern.
	prefix, rest := p.text, ""
	if i := strings.IndexAny(p.text, `*?[\`); i >= 0 {
		prefix, rest = p.text[:i], p.text[i:]
	}
	path, ok := strings.CutPrefix(path, prefix)
	return ok && wildmatch(rest, path, true)
}

// ignoreRules answers whether an untracked path is ignored.
type ignoreRules struct {
	// files holds the rules of each folder that has a .gitignore.
	files map[string][]pathPattern
	// info and config are those of info/exclude and core.excludesFile.
	info, config []pathPattern
}

// parseIgnore reads an ignore file of folder base.
func parseIgnore(text, base string) []pathPattern {
	var out []pathPattern
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		line = trimSpaces(line)
		if line == "" {
			continue
		}
		out = append(out, parsePattern(line, base))
	}
	return out
}

// trimSpaces removes trailing spaces that no backslash protects.
func trimSpaces(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		} else if s[i] == ' ' {
			continue
		}
		end = i + 1
	}
	return s[:end]
}

// match reports whether path itself is ignored; the caller walks from the top and does not enter ignored folders.
// Within a file the last match counts; files are asked from the path's folder upwards, then info, then config.
func (r *ignoreRules) match(path string, isDir bool) bool {
	last := func(list []pathPattern) (ignored, found bool) {
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].match(path, isDir) {
				return !list[i].negative, true
			}
		}
		return false, false
	}
	for dir := path; dir != ""; {
		i := strings.LastIndexByte(dir, '/')
		dir = dir[:max(i, 0)]
		if ignored, found := last(r.files[dir]); found {
			return ignored
		}
	}
	if ignored, found := last(r.info); found {
		return ignored
	}
	ignored, _ := last(r.config)
	return ignored
}
