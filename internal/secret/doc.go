// Package secret reads a key or token from the environment or from a file.
//
// A key is read when it is used, so that a file can be replaced while the program runs. What was read does not show, however
// it is printed, logged or encoded. The HTTP clients of model providers and of MCP servers use it.
package secret
