package activities

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSameCall(t *testing.T) {
	for ids, want := range map[[2]string]bool{
		{"t1.1", "t1.1"}: true, {"t1.1~2", "t1.1"}: true, {"t1.1~", "t1.1"}: true,
		{"t1.10", "t1.1"}: false, {"t1.1", "t1.10"}: false, {"t1.1~2", "t1.10"}: false, {"", ""}: false, {"~", ""}: false,
	} {
		require.Equal(t, want, sameCall(ids[0], ids[1]), "%q", ids)
	}
}

func TestCut(t *testing.T) {
	require.Equal(t, "abc", cut("abc", 3))
	require.Equal(t, "ab…", cut("abc", 2))
	require.Equal(t, "é…", cut("éé", 3), "no character is broken")
	require.Equal(t, "…", cut("é", 1))
}
