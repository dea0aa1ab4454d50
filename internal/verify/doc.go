// Package verify proves from a recorded history alone that every tool call was permitted: by a recorded decision or by an
// admitted answer, with the arguments, contract, run and policy that were decided on, once, in time, and not after it was
// revoked. It trusts what the server recorded and nothing else: it needs no worker, no policy and no blob store.
//
// What it cannot see it says. A call whose permission cannot be read is a finding, never a pass. The command
// `starter verify` prints its reports, and the end-to-end tests hold every history against it.
package verify
