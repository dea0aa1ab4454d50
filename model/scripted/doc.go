// Package scripted is a model that plays a YAML script, for tests, examples and a first run without a provider.
//
// The driver keeps no state: the turn it plays is the number of assistant messages in the request. So a retried
// Generate returns the same turn, any worker can serve it, and a replay sees what the first run saw.
//
//	turns:
//	  - say: Looking at the directory.
//	    calls:
//	      - tool: list_files
//	        args: {dir: .}
//	    usage: {inputTokens: 120, outputTokens: 14}
//	  - expect: {lastResult: {code: OK, contains: go.mod}}
//	    say: It is a Go module.
//
// A call gives args, any YAML value, or raw, the text as a model would send it, valid JSON or not. Its id is
// call_<turn>_<n>, both from 1, unless it names one. stop is end, tool_use, max_tokens or refusal. expect.contains is about
// the last message. replies, a list like turns, each with a when (prompt, contains, lastResult, turn), go before turns: the first one
// whose when holds is said. summaries, a list like turns without calls, is what is said when older turns are to be summarised.
package scripted
