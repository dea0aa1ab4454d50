package workflows_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// spoiled is a store in which blobs that begin with some text are not as they were, once they have been read a few times.
type spoiled struct {
	blob.Store
	text    string
	good    int
	missing bool
	// late is how often a blob is not there before it comes; 0 means that it never does.
	late int

	mu sync.Mutex
	// failed counts the reads that failed.
	reads, failed int
}

func (s *spoiled) Get(ctx context.Context, ref blob.Ref) ([]byte, error) {
	data, err := s.Store.Get(ctx, ref)
	if err != nil || !bytes.HasPrefix(data, []byte(s.text)) {
		return data, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads++; s.reads <= s.good || s.late > 0 && s.failed == s.late {
		return data, nil
	}
	s.failed++
	if s.missing {
		return nil, &blob.NotFoundError{Store: s.ID(), Ref: ref}
	}
	return nil, &blob.CorruptError{Store: s.ID(), Ref: ref, Got: blob.RefOf([]byte("other"))}
}

// Whatever of an agent is missing or altered: it comes to an end that says so. What cannot heal is read once; what may
// come late as often as the activity is tried, and no more.
func TestAnAgentWhoseBlobsAreSpoiled(t *testing.T) {
	large := strings.Repeat("large ", 10<<10)
	script := fmt.Sprintf(`
turns:
  - calls: [{tool: look, args: {path: %q}}]
  - say: done
`, large)
	for name, tc := range map[string]struct {
		*spoiled
		prompt string
		// tries is how often it is read in vain, status how the agent ends, code the call's result.
		tries  int
		status protocol.Status
		code   tool.Code
	}{
		"what is frozen, altered":  {spoiled: &spoiled{text: `{"tools":[{`}, tries: 1, status: protocol.Failed},
		"what is frozen, missing":  {spoiled: &spoiled{text: `{"tools":[{`, missing: true}, tries: 10, status: protocol.Failed},
		"the prompt, altered":      {spoiled: &spoiled{text: "a long prompt"}, prompt: strings.Repeat("a long prompt ", 2<<10), tries: 1, status: protocol.Failed},
		"the transcript, altered":  {spoiled: &spoiled{text: `{"messages":`}, tries: 1, status: protocol.Failed},
		"the transcript, missing":  {spoiled: &spoiled{text: `{"messages":`, missing: true}, tries: 10, status: protocol.Failed},
		"it comes late":            {spoiled: &spoiled{text: `{"messages":`, missing: true, late: 3}, tries: 3, status: protocol.OK, code: tool.OK},
		"arguments, altered":       {spoiled: &spoiled{text: `{"path":"large`}, tries: 1, status: protocol.OK, code: tool.Denied},
		"arguments, missing":       {spoiled: &spoiled{text: `{"path":"large`, missing: true}, tries: 1, status: protocol.OK, code: tool.Denied},
		"altered once decided":     {spoiled: &spoiled{text: `{"path":"large`, good: 1}, tries: 1, status: protocol.OK, code: tool.ToolError},
		"a result, altered":        {spoiled: &spoiled{text: `{"path":"large`, good: 2}, tries: 1, status: protocol.Failed},
		"a result that is missing": {spoiled: &spoiled{text: `{"path":"large`, good: 2, missing: true}, tries: 10, status: protocol.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			store := tc.spoiled
			b := newBench(t, setup{script: script, blobs: func(s blob.Store) blob.Store { store.Store = s; return store }})
			res := b.run(protocol.AgentInput{Prompt: tc.prompt})
			require.Equal(t, tc.status, res.Status, res.Error)
			require.Equal(t, tc.tries, store.failed)
			if tc.status == protocol.Failed {
				want := "is altered"
				if tc.missing {
					want = "is not in store"
				}
				require.Contains(t, res.Error, want)
				require.Contains(t, res.Error, `"memory"`)
				return
			}
			got := b.results(res)
			require.Len(t, got, 1)
			require.Equal(t, tc.code, got[0].Result.Code)
			if tc.code != tool.OK {
				require.Empty(t, b.ran["look"])
				require.Contains(t, got[0].Result.Failure.Message, "blob ")
			}
		})
	}
}
