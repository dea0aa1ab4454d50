// Package canonjson turns JSON text into its one canonical form, so that equal values have equal bytes and
// equal hashes.
//
// The form is RFC 8785 (members sorted by UTF-16 code units, shortest escapes, no white space) with one
// difference: a number gets its ES6 text only when that text has exactly the value that was written. A number
// that a float64 cannot hold keeps its digits, so 9007199254740993 survives and never collides with its neighbour.
//
// Text that could mean two things is an *Error, never a guess: duplicate keys, lone surrogates, invalid UTF-8,
// trailing data, nesting beyond MaxDepth and numbers beyond MaxExponent. Contract hashes, approval keys and
// argument digests are computed from these bytes.
package canonjson
