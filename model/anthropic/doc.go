// Package anthropic is the driver for Anthropic's Messages API, and for servers and gateways that speak it.
//
// It uses the vendor's SDK for the forms of requests and events, and package endpoint for everything about the connection:
// one attempt, typed errors, a key that the SDK never sees. A turn is always streamed. What a model says is kept in the
// order it said it, thinking included, and goes back verbatim as long as the same model is asked.
package anthropic
