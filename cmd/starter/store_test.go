package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/internal/exit"
)

// Of a blob that cannot be had it is said whose store was looked into, and what can be done.
func TestBlobsThatCannotBeHad(t *testing.T) {
	ref := blob.RefOf([]byte("x"))
	missing := &blob.NotFoundError{Store: "here", Ref: ref}
	other := errors.New("disk on fire")
	for name, tc := range map[string]struct {
		err  error
		want string
		says string
		hint string
	}{
		"missing":            {missing, "here", "is not in store", "it was deleted, or lost"},
		"of another store":   {missing, "there", "/dir is blob store here, the agent used there", otherStore},
		"of an unknown one":  {missing, "", "is not in store", otherStore},
		"altered":            {&blob.CorruptError{Store: "here", Ref: ref}, "here", "is altered", "only come from a backup"},
		"something else":     {other, "here", "disk on fire", ""},
		"nothing is missing": {nil, "here", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := inStore(tc.err, "/dir", "here", tc.want)
			if tc.err == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.says)
			require.ErrorIs(t, err, tc.err)
			var e *exit.Error
			if tc.hint != "" {
				require.ErrorAs(t, err, &e)
				require.Contains(t, e.Hint, tc.hint)
			}
		})
	}
}
