// Package tool defines what a model can call: typed, validated, contract-hashed functions and their results.
//
// Everything wrong with a definition is a *fault.ConfigError where it is defined, never a surprise at the
// first call. Name, description, parameters and version are the contract that the model reads and the hash
// covers; risk, approval, executor and timeout are policy and are not.
//
// Authors of tools call New; the engine calls Def.Validate and Def.Invoke.
package tool
