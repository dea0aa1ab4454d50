package model

// Tokens bounds the tokens of so many bytes of text from above: a token of two bytes is short in every language and for
// every tokenizer that is in use. English has about four.
func Tokens(bytes int) int64 { return int64(bytes+1)/2 + 1 }

// InputTokens bounds the input of a request from above, without asking anybody.
func (r Request) InputTokens() int64 {
	// What a provider adds of its own: roles, separators, instructions on how to call tools.
	const perRequest, perMessage, perTool = 600, 8, 24
	n := perRequest + Tokens(len(r.System)) + Tokens(len(r.OutputSchema))
	for _, t := range r.Tools {
		n += perTool + Tokens(len(t.Name)+len(t.Description)+len(t.Parameters))
	}
	for _, m := range r.Messages {
		n += perMessage + Tokens(m.Bytes())
	}
	return n
}

// imageBytes is what an image counts for: no provider takes more than some 4,800 tokens for one.
const imageBytes = 2 * 4800

// Bytes is the size of what a model reads of a message.
func (m Message) Bytes() int {
	n := len(m.Text) + len(m.Opaque)
	for _, c := range m.Calls {
		n += len(c.ID) + len(c.Name) + len(c.Input) + len(c.Raw) + 32
	}
	for _, r := range m.Results {
		n += len(r.CallID) + len(r.Name) + len(r.Result.Value) + 64
		if f := r.Result.Failure; f != nil {
			n += len(f.Message) + len(f.Data)
			for _, i := range f.Issues {
				n += len(i.Pointer) + len(i.Message) + 16
			}
		}
		n += len(r.Result.FinalInput) + len(r.Result.Images)*imageBytes
	}
	return n
}
