// Package permission decides whether a tool call may run: hooks, deny rules, ask rules, canUseTool, default.
//
// A policy is a [Spec] of layers. [Compile] checks it and builds a [Chain]; [Chain.Decide] judges one [Call] and
// returns a [Decision]: the verdict, who decided, why, and on which input. The first layer that decides ends the
// chain. Rules never allow, and every failure of a layer denies in that layer's name.
//
// Two things bend the order, both towards the stricter side. A tool that declares write or destructive is denied under
// readonly isolation whatever a hook says. And an ask that the policy did not spell (a rule of one agent's input, a
// command that cannot be read) does not keep canUseTool from denying, so that adding a rule never weakens.
//
// The package is pure: it waits for nobody and reads nothing. Hooks are the caller's, and run under a timeout.
// Questions and answers are the package approval; shell text is the package argv.
package permission
