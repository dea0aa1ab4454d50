package tool

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/assent-dev/assent/blob"
)

// Bounds of the images of one call. Providers take no larger ones.
const (
	MaxImages     = 8
	MaxImageBytes = 3 << 20
)

// Image is an image that belongs to a result: a screenshot, a plot.
type Image struct {
	// MediaType is one of ImageTypes.
	MediaType string `json:"mediaType"`
	// Ref is where the image lies. The engine puts it there; before that, and on the way to a model, Data has the bytes.
	Ref  *blob.Ref `json:"ref,omitempty"`
	Data []byte    `json:"-"`
}

// ImageTypes are the media types that every provider takes which takes images.
var ImageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// AddImage adds an image to the result of the call, if that is OK; a model whose API takes images in results is shown it. Data is
// the file, not encoded. It is for the body of a tool, while that runs, and is not safe for concurrent use. An error says why the
// image cannot be shown.
func (c *Context) AddImage(mediaType string, data []byte) error {
	switch {
	case !slices.Contains(ImageTypes, mediaType):
		return fmt.Errorf("add image: unknown media type %q; one of %s", mediaType, strings.Join(ImageTypes, ", "))
	case sniff(data) != mediaType:
		return fmt.Errorf("add image: the data is no %s", mediaType)
	case len(data) > MaxImageBytes:
		return fmt.Errorf("add image: %d bytes, at most %d can be shown", len(data), MaxImageBytes)
	case len(c.images) == MaxImages:
		return fmt.Errorf("add image: the call has %d already", MaxImages)
	}
	c.images = append(c.images, Image{MediaType: mediaType, Data: bytes.Clone(data)})
	return nil
}

// sniff is the media type that the beginning of a file tells. A provider refuses a whole request for an image that is none.
func sniff(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		return "image/gif"
	case len(data) >= 12 && bytes.HasPrefix(data, []byte("RIFF")) && string(data[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// Sound reports whether an image may be shown to a model: of a known type, and its data, if it is there, of that type and
// not too large.
func (i Image) Sound() bool {
	return slices.Contains(ImageTypes, i.MediaType) && (i.Data == nil || sniff(i.Data) == i.MediaType && len(i.Data) <= MaxImageBytes)
}
