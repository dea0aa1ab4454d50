// Package permission decides whether a tool call may run: hooks, deny rules, ask rules, canUseTool, default.
//
// The first decisive layer wins, rules never allow, and every failure of a layer denies. A Decision says who
// decided, by which rule, on which input. The package is pure: it waits for nobody and reads nothing.
package permission
