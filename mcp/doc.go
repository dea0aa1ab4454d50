// Package mcp makes tools of MCP servers: a Server is a tool.Source.
//
// A server is a program that speaks over its stdin and stdout, or an address of streamable HTTP. Connections belong to the
// Server and outlive every call; one that broke is made anew at the next call. A call that cannot have reached the server is
// tried again, one that may have is not, unless it only reads or is idempotent: its result is EFFECT_UNKNOWN.
//
// Nothing that a server says is believed: hints raise a tool's risk and never lower it, a tool with a name or schema that
// does not fit is refused by name, and everything that is read from the wire is bounded in bytes, in number and in time.
package mcp
