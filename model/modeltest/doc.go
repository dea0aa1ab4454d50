// Package modeltest has servers on loopback that speak the APIs of model providers, for tests of drivers and of agents that
// use them.
//
// A Server answers with what a model.Model says, mostly a script, in the wire format of one API: streamed, in pieces, with
// thinking. It reads requests as strictly as the provider does, and fails the test if one breaks the provider's rules: one
// result for each call, next to it; roles in turn; ids that are unique; thinking as it was sent. Faults can be queued.
package modeltest
