package git

import (
	"strings"
	"testing"
)

// FuzzSharedText feeds what an agent can write into a repository to everything that reads it.
func FuzzSharedText(f *testing.F) {
	for _, p := range patternCorpus {
		f.Add(p+"\n", "a/b")
	}
	f.Add("[a \"b\"]\nk = \"v\\\n", "x")
	f.Add("100644 a\x0001234567890123456789", "DIRC\x00\x00\x00\x02\x00\x00\x00\x01")
	f.Fuzz(func(t *testing.T, text, path string) {
		_, _ = parseConfig(text)
		for _, p := range parseIgnore(text, "") {
			p.match(path, true)
			if !strings.Contains(path, "\x00") {
				wildmatch(p.text, path, false)
			}
		}
		a, err := newAttributes(settings{Attributes: text})
		if err == nil {
			settings{}.convert(a, path)
		}
		_, _ = parseTree([]byte(text))
		_, _ = decodeIndex([]byte(path))
		validName(path, true)
		if back, rest, ok := unquote(quote("", path)); ok && (back != path || rest != "") {
			t.Fatalf("%q came back as %q and %q", path, back, rest)
		}
		for _, c := range []conversion{convNone, convText, convTextCRLF, convAuto, convAutoCRLF} {
			if _, err := c.toBlob(c.toDisk([]byte(text)), nil); err != nil {
				t.Fatal(err)
			}
		}
		d := diffLines([]byte(text), []byte(path))
		if got := patched(d); got != path {
			t.Fatalf("diff of %q and %q gives %q", text, path, got)
		}
	})
}

// patched applies a diff to its old side.
func patched(d *lineDiff) string {
	var b strings.Builder
	j := 0
	for i := range d.old {
		for ; j < len(d.new) && d.added[j]; j++ {
			b.Write(d.new[j])
		}
		if !d.deleted[i] {
			b.Write(d.old[i])
			j++
		}
	}
	for ; j < len(d.new); j++ {
		b.Write(d.new[j])
	}
	return b.String()
}
