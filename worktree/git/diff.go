package git

import (
	"bytes"
	"fmt"
	"math"
)

const contextLines = 3

// lineDiff marks the lines that differ between two texts.
type lineDiff struct {
	old, new         [][]byte // lines with their line ends
	a, b             []int32  // equal numbers are equal lines
	deleted, added   []bool
	forward, reverse []int // furthest line of a on each diagonal
	zero             int   // index of diagonal 0
	limit            int   // cost from which a good split is taken instead of the best
}

// diffLines compares two texts line by line, by Myers' algorithm in linear space. The result is minimal unless
// the texts differ in very many places.
func diffLines(old, new []byte) *lineDiff {
	d := &lineDiff{old: splitLines(old), new: splitLines(new)}
	na, nb := len(d.old), len(d.new)
	head, tail := 0, 0
	for head < min(na, nb) && bytes.Equal(d.old[head], d.new[head]) {
		head++
	}
	for tail < min(na, nb)-head && bytes.Equal(d.old[na-1-tail], d.new[nb-1-tail]) {
		tail++
	}
	// Lines get numbers only where they can differ, so that a small edit of a large file costs little.
	numbers := map[string]int32{}
	number := func(lines [][]byte) []int32 {
		out := make([]int32, len(lines))
		for i := head; i < len(lines)-tail; i++ {
			n, ok := numbers[string(lines[i])]
			if !ok {
				n = int32(len(numbers))
				numbers[string(lines[i])] = n
			}
			out[i] = n
		}
		return out
	}
	d.a, d.b = number(d.old), number(d.new)
	d.deleted, d.added = make([]bool, len(d.a)), make([]bool, len(d.b))
	// Diagonals run from -(nb-tail-head) to na-tail-head around the one that both texts begin on.
	size := na + nb - 2*(head+tail) + 3
	d.forward, d.reverse = make([]int, size), make([]int, size)
	d.zero = nb - head - tail + 1
	d.limit = max(256, int(math.Sqrt(float64(size))))
	d.compare(head, na-tail, head, nb-tail)
	return d
}

func splitLines(text []byte) [][]byte {
	return bytes.SplitAfter(text, []byte("\n"))[:countParts(text)]
}

// countParts leaves out the empty part after a final line end.
func countParts(text []byte) int {
	n := bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// compare marks the differences between lines a0..a1 and b0..b1.
func (d *lineDiff) compare(a0, a1, b0, b1 int) {
	for {
		for a0 < a1 && b0 < b1 && d.a[a0] == d.b[b0] {
			a0, b0 = a0+1, b0+1
		}
		for a0 < a1 && b0 < b1 && d.a[a1-1] == d.b[b1-1] {
			a1, b1 = a1-1, b1-1
		}
		if a0 == a1 || b0 == b1 {
			for ; a0 < a1; a0++ {
				d.deleted[a0] = true
			}
			for ; b0 < b1; b0++ {
				d.added[b0] = true
			}
			return
		}
		x, y := d.split(a0, a1, b0, b1)
		d.compare(a0, x, b0, y)
		a0, b0 = x, y
	}
}

// split returns a point on a shortest way from (a0, b0) to (a1, b1), found by walking from both ends.
func (d *lineDiff) split(a0, a1, b0, b1 int) (int, int) {
	low, high := a0-b1, a1-b0
	f0, f1 := a0-b0, a0-b0
	r0, r1 := a1-b1, a1-b1
	odd := (f0-r0)&1 != 0
	d.forward[d.zero+f0], d.reverse[d.zero+r0] = a0, a1
	for cost := 1; ; cost++ {
		f0, f1 = widen(d.forward, d.zero, f0, f1, low, high, -1)
		for k := f1; k >= f0; k -= 2 {
			v := d.forward[d.zero+k-1:]
			x := max(v[0]+1, v[2])
			for x < a1 && x-k < b1 && d.a[x] == d.b[x-k] {
				x++
			}
			v[1] = x
			if odd && r0 <= k && k <= r1 && d.reverse[d.zero+k] <= x {
				return x, x - k
			}
		}
		r0, r1 = widen(d.reverse, d.zero, r0, r1, low, high, math.MaxInt)
		for k := r1; k >= r0; k -= 2 {
			v := d.reverse[d.zero+k-1:]
			x := min(v[0], v[2]-1)
			for x > a0 && x-k > b0 && d.a[x-1] == d.b[x-k-1] {
				x--
			}
			v[1] = x
			if !odd && f0 <= k && k <= f1 && x <= d.forward[d.zero+k] {
				return x, x - k
			}
		}
		if cost >= d.limit {
			return d.furthest(a0, a1, b0, b1, f0, f1, r0, r1)
		}
	}
}

// widen takes in one diagonal more at each end, or gives one up at the edge; none is the value of a diagonal
// that was not reached.
func widen(v []int, zero, k0, k1, low, high, none int) (int, int) {
	if k0 > low {
		k0--
		v[zero+k0-1] = none
	} else {
		k0++
	}
	if k1 < high {
		k1++
		v[zero+k1+1] = none
	} else {
		k1--
	}
	return k0, k1
}

// furthest returns the point that the walk from either end got furthest to.
func (d *lineDiff) furthest(a0, a1, b0, b1, f0, f1, r0, r1 int) (int, int) {
	fx, best := a0, -1
	for k := f1; k >= f0; k -= 2 {
		x := min(d.forward[d.zero+k], a1)
		if x-k > b1 {
			x = b1 + k
		}
		if x+x-k > best {
			fx, best = x, x+x-k
		}
	}
	rx, least := a1, math.MaxInt
	for k := r1; k >= r0; k -= 2 {
		x := max(d.reverse[d.zero+k], a0)
		if x-k < b0 {
			x = b0 + k
		}
		if x+x-k < least {
			rx, least = x, x+x-k
		}
	}
	if a1+b1-least < best-a0-b0 {
		return fx, best - fx
	}
	return rx, least - rx
}

// counts returns how many lines were added and deleted.
func (d *lineDiff) counts() (added, deleted int) {
	for _, x := range d.added {
		if x {
			added++
		}
	}
	for _, x := range d.deleted {
		if x {
			deleted++
		}
	}
	return added, deleted
}

// hunks appends the differences in unified form, with some lines of context around each.
func (d *lineDiff) hunks(out []byte, context int) []byte {
	type edit struct{ a0, a1, b0, b1 int }
	var edits []edit
	for i, j := 0, 0; i < len(d.a) || j < len(d.b); {
		e := edit{a0: i, b0: j}
		for i < len(d.a) && d.deleted[i] {
			i++
		}
		for j < len(d.b) && d.added[j] {
			j++
		}
		if e.a1, e.b1 = i, j; i > e.a0 || j > e.b0 {
			edits = append(edits, e)
		} else {
			i, j = i+1, j+1
		}
	}
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].a0-edits[n-1].a1 <= 2*context {
			n++
		}
		first, last := edits[0], edits[n-1]
		lead := min(context, first.a0)
		tail := min(context, len(d.a)-last.a1)
		out = append(out, "@@ -"...)
		out = appendRange(out, first.a0-lead, last.a1+tail)
		out = append(out, " +"...)
		out = appendRange(out, first.b0-lead, last.b1+tail)
		out = append(out, " @@\n"...)
		at := first.a0 - lead
		for _, e := range edits[:n] {
			out = appendLines(out, ' ', d.old[at:e.a0])
			out = appendLines(out, '-', d.old[e.a0:e.a1])
			out = appendLines(out, '+', d.new[e.b0:e.b1])
			at = e.a1
		}
		out = appendLines(out, ' ', d.old[at:at+tail])
		edits = edits[n:]
	}
	return out
}

// appendRange appends the lines from..to, counted from 0, as a hunk's head names them.
func appendRange(out []byte, from, to int) []byte {
	switch to - from {
	case 0:
		return fmt.Appendf(out, "%d,0", from)
	case 1:
		return fmt.Appendf(out, "%d", from+1)
	}
	return fmt.Appendf(out, "%d,%d", from+1, to-from)
}

func appendLines(out []byte, sign byte, lines [][]byte) []byte {
	for _, l := range lines {
		out = append(out, sign)
		out = append(out, l...)
		if l[len(l)-1] != '\n' {
			out = append(out, "\n\\ No newline at end of file\n"...)
		}
	}
	return out
}
