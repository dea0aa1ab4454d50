package protocol

import (
	"encoding/json"
	"runtime"
	"sync"
	"weak"
)

// shared holds what Share has returned and somebody still has, by its JSON.
var shared sync.Map

// Share returns a copy of r that all who share an equal one have in common, so it is only read. A worker parks thousands of
// agents that were resolved to the same. Equal is what has the same JSON, which is all that a run or the next one can tell
// apart.
func Share(r ResolveResponse) *ResolveResponse {
	text, err := json.Marshal(r)
	if err != nil {
		// It came as JSON, or is nothing that can be sent: then it is nobody else's.
		return &r
	}
	key, mine := string(text), &r
	entry := weak.Make(mine)
	for {
		have, found := shared.LoadOrStore(key, entry)
		if !found {
			runtime.AddCleanup(mine, func(key string) { shared.CompareAndDelete(key, entry) }, key)
			return mine
		}
		if theirs := have.(weak.Pointer[ResolveResponse]).Value(); theirs != nil {
			return theirs
		}
		// It is gone, and its place not yet cleaned up.
		shared.CompareAndDelete(key, have)
	}
}
