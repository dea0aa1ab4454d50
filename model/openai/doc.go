// Package openai is the driver for OpenAI's two APIs, Responses and Chat Completions, and for the many servers and gateways
// that speak one of them.
//
// It uses the vendor's SDK for the forms of requests and events, and package endpoint for everything about the connection:
// one attempt, typed errors, a key that the SDK never sees. A turn is always streamed, and nothing is stored with the
// provider: what has to go back to the same model, such as encrypted reasoning, is kept with the turn.
package openai
