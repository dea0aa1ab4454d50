package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/tool"
)

var pictures = map[string]string{
	"image/png": "\x89PNG\r\n\x1a\nrest", "image/jpeg": "\xff\xd8\xff\xe0rest", "image/gif": "GIF89arest", "image/webp": "RIFF\x00\x00\x00\x00WEBPrest",
}

func TestImagesOfACall(t *testing.T) {
	for kind, data := range pictures {
		c := &tool.Context{}
		require.NoError(t, c.AddImage(kind, []byte(data)))
		require.True(t, tool.Image{MediaType: kind, Data: []byte(data)}.Sound())
	}
	for name, bad := range map[string]struct{ kind, data, says string }{
		"unknown":     {"image/svg+xml", "<svg/>", "unknown media type"},
		"of another":  {"image/png", pictures["image/gif"], "the data is no image/png"},
		"empty":       {"image/png", "", "the data is no image/png"},
		"a page":      {"image/webp", "RIFF\x00\x00\x00\x00WAVErest", "the data is no image/webp"},
		"too large":   {"image/png", pictures["image/png"] + strings.Repeat("x", tool.MaxImageBytes), "can be shown"},
		"other words": {"png", pictures["image/png"], "unknown media type"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, (&tool.Context{}).AddImage(bad.kind, []byte(bad.data)), bad.says)
			require.False(t, tool.Image{MediaType: bad.kind, Data: []byte(bad.data)}.Sound())
		})
	}
}

func TestImagesAreOfTheCallThatAddedThem(t *testing.T) {
	fail := false
	d := tool.MustNew("plot", "Plots.", func(_ context.Context, c *tool.Context, _ struct{}) (string, error) {
		data := []byte(pictures["image/png"])
		for range tool.MaxImages {
			require.NoError(t, c.AddImage("image/png", data))
		}
		data[9] = 'X'
		require.ErrorContains(t, c.AddImage("image/png", data), "has 8 already")
		if fail {
			return "", errors.New("no ink")
		}
		return "plotted", nil
	})
	c := &tool.Context{}
	for range 2 {
		r := d.Invoke(context.Background(), c, json.RawMessage(`{}`))
		require.Len(t, r.Images, tool.MaxImages)
		require.Equal(t, pictures["image/png"], string(r.Images[0].Data), "a copy")
		raw, err := json.Marshal(r)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "iVBOR", "the bytes are in no history")
	}
	fail = true
	require.Empty(t, d.Invoke(context.Background(), c, json.RawMessage(`{}`)).Images)
}
