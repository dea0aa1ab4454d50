// Package hostname brings the spellings of one host to one form, so that the rule that names a host, the check before a
// connection and the connection itself mean the same one.
//
// A name is IDNA in ASCII and lower case without a final dot; an address is in its shortest form, an IPv4 address in IPv6
// clothes as IPv4. A spelling that two programs read as two hosts is an error, never a guess.
package hostname
