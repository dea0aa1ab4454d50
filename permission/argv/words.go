package argv

// Words returns the words of the pattern as they were written; a bare * is any one word, and ** can be the last. Joined
// by blanks they are the pattern again.
func (p Pattern) Words() []string {
	words, _ := patternWords(p.text) // it was compiled from them
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = source(p.text, w)
	}
	return out
}
