// Package workflows is the deterministic side of Assent: the agent loop and the gate that every tool call passes.
//
// Nothing here decides. Chain, guards, tools, models and git run in activities; this package holds their recorded
// answers, waits for people, and lets a call go on exactly as it was approved, once. It must not look at clocks,
// maps in range order, goroutines, files or networks; workflowcheck and the replayed histories see to it.
//
// The worker package installs it; users meet it as the workflow type assent.Agent and as an interceptor.
package workflows
