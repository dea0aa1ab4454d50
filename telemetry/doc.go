// Package telemetry makes OpenTelemetry spans and metrics of what agents do, by the semantic conventions for GenAI.
//
// A Telemetry is an interceptor of Temporal's, for the options of a client: every worker of that client has it then. A span is
// made where its work is done, and ends with it: model turns and tools in their activities, decisions in theirs, and an agent
// and its questions in the workflow, at the moment at which they end and never in a replay. So a crash, a replay, a reset or a
// second worker repeats none. The agent's own span is long over before it ends: its ids follow from the run, and travel in a
// header, so that every worker knows its parent.
//
// Only the API of OpenTelemetry is imported; which SDK and which exporter is up to the team. No arguments, results, prompts,
// answers or error texts are in any span or metric: a secret that a tool says stays out of them.
package telemetry
