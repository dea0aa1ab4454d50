package activities

import (
	"context"

	"github.com/assent-dev/assent/model"
	"github.com/assent-dev/assent/tool"
)

const (
	// mostShown and mostShownBytes bound the images of a request: providers refuse more. Later ones go first.
	mostShown      = 20
	mostShownBytes = 12 << 20
)

// settleImages puts the images of a result where history refers to them. What is no image is left out.
func (e *Engine) settleImages(ctx context.Context, r *tool.Result) *tool.Result {
	var kept []tool.Image
	for _, i := range r.Images {
		if len(kept) == tool.MaxImages || !i.Sound() || i.Data == nil && i.Ref == nil {
			continue
		}
		if i.Data != nil {
			ref, err := e.cfg.Blobs.Put(ctx, i.Data)
			if err != nil {
				res := tool.Fail(tool.ToolError, "the tool ran, and an image of its result could not be stored: "+cut(err.Error(), 500))
				res.Failure.Started = true
				return &res
			}
			i.Ref, i.Data = &ref, nil
		}
		kept = append(kept, i)
	}
	r.Images = kept
	return nil
}

// illustrate reads the images that a model is shown, from the last result back. The others stay references.
func (e *Engine) illustrate(ctx context.Context, messages []model.Message) error {
	count, bytes := 0, int64(0)
	for m := len(messages) - 1; m >= 0; m-- {
		for n := len(messages[m].Results) - 1; n >= 0; n-- {
			images := messages[m].Results[n].Result.Images
			for i := len(images) - 1; i >= 0; i-- {
				ref := images[i].Ref
				if ref == nil || ref.Size > tool.MaxImageBytes {
					continue
				}
				if count, bytes = count+1, bytes+ref.Size; count > mostShown || bytes > mostShownBytes {
					return nil
				}
				data, err := e.cfg.Blobs.Get(ctx, *ref)
				if err != nil {
					return err
				}
				images[i].Data = data
			}
		}
	}
	return nil
}
