package assenttest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent"
	"github.com/assent-dev/assent/assenttest"
	"github.com/assent-dev/assent/blob"
	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/tool"
)

// The images of a result are stored, and a model is shown the latest ones.
func TestAModelIsShownTheLatestImages(t *testing.T) {
	n := 0
	plot := tool.MustNew("plot", "Plots.", func(_ context.Context, c *tool.Context, _ struct{}) (string, error) {
		for range tool.MaxImages {
			if err := c.AddImage("image/png", fmt.Appendf(nil, "\x89PNG\r\n\x1a\n%d", n)); err != nil {
				return "", err
			}
			n++
		}
		return "plotted", nil
	}, tool.Read)
	cfg := assent.Config{Blobs: blob.NewMemory("m"), Tools: []*tool.Def{plot},
		Profiles: map[string]config.Profile{"clerk": {Name: "clerk", Models: []string{"a:b"}, Tools: []string{"plot"}}}}
	var shown []string
	hidden := 0
	turns := assenttest.Turns{{Calls: []assenttest.Call{{Tool: "plot"}}}, {Calls: []assenttest.Call{{Tool: "plot"}}}, {Calls: []assenttest.Call{{Tool: "plot"}}},
		{Say: "done", Check: func(r model.Request) error {
			for _, m := range r.Messages {
				for _, res := range m.Results {
					for _, i := range res.Result.Images {
						if i.Data == nil {
							hidden++
							continue
						}
						shown = append(shown, string(i.Data[8:]))
					}
				}
			}
			return nil
		}}}
	run := assenttest.New(t, cfg, turns).Run(task)
	require.NoError(t, run.Err)
	require.Equal(t, "done", run.Result.Output, run.Result.Error)
	require.Equal(t, 4, hidden)
	require.Len(t, shown, 20)
	require.Equal(t, "4", shown[0])
	require.Equal(t, "23", shown[19])
	require.Len(t, run.Calls[0].Result.Images, tool.MaxImages)
	require.NotNil(t, run.Calls[0].Result.Images[0].Ref)
	require.Nil(t, run.Calls[0].Result.Images[0].Data)
}
