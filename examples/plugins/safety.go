package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/assent-dev/assent/pipeline"
)

// safety is a rule about everybody's tools. It was written without knowing which there are.
func safety(s *pipeline.Scope) error {
	return s.Guard("no-root", func(_ context.Context, call pipeline.Call) error {
		var in struct{ Path string }
		if err := json.Unmarshal(call.Input, &in); err != nil {
			return err
		}
		if in.Path == "/" {
			return errors.New("refusing to touch the root of the file system")
		}
		return nil
	})
}
