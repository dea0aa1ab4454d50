// Package pipeline takes every tool call through five stages that plugins add to without knowing each other.
//
//	1 pre-execute   Listener  waterfall   Allow, Deny or Ask; the permission chain is its innermost default
//	2 guards        Guard     monotonic   nil or an error that denies; a guard cannot allow
//	3 execute       Wrapper   waterfall   holds the whole call: timeouts, retries, metrics
//	4 post-execute  Post      waterfall   Accept, Replace or Block the result
//	5 result        Observer  observe     sees every outcome and changes none
//
// In a waterfall the first registered is outermost. The stages fail closed: an error, a panic or nonsense in
// stages 1 and 2 denies, in stage 4 withholds the result, in stage 3 fails the call; stage 5 is logged.
// Listeners get private copies of the call and of the result, so none can change what another sees.
//
// A plugin registers on the Scope that Mount gives it. Everything it registers appears at once when mounting
// succeeds and disappears at once when the Scope closes. Calls in flight keep the listeners of their start;
// guards are the exception, where the union of those at the start and now applies.
//
// The engine judges and runs a call in two places (Judge, Run); without any engine, Execute does both.
package pipeline
