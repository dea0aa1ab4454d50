package toolbox

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// ownHeaders are those that fetch or the protocol decides on.
var ownHeaders = map[string]bool{
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Keep-Alive": true, "Te": true,
	"Trailer": true, "Upgrade": true, "Expect": true, "Accept-Encoding": true, "Http2-Settings": true,
}

// carried are the headers of a request that another origin gets after a redirect. Any other may hold a secret.
var carried = map[string]bool{
	"Accept": true, "Accept-Language": true, "Content-Language": true, "Content-Type": true, "If-Modified-Since": true,
	"If-None-Match": true, "Range": true, "User-Agent": true,
}

func aboutBody(name string) bool { return strings.HasPrefix(name, "Content-") }

func dropHeaders(h http.Header, which func(name string) bool) {
	maps.DeleteFunc(h, func(name string, _ []string) bool { return which(name) })
}

// requestHeaders checks the headers that a model wants to send.
func requestHeaders(in map[string]string) (http.Header, error) {
	out := http.Header{"User-Agent": {"assent-fetch"}}
	size, seen := 0, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		value, canonical := in[name], http.CanonicalHeaderKey(name)
		size += len(name) + len(value)
		switch {
		case size > maxHeaders:
			return nil, fmt.Errorf("the headers have more than %d bytes", maxHeaders)
		case !isToken(name):
			return nil, fmt.Errorf("%q is no name of a header", clip(name))
		case ownHeaders[canonical] || strings.HasPrefix(canonical, "Proxy-"):
			return nil, fmt.Errorf("the header %s cannot be set; leave it out", canonical)
		case seen[canonical]:
			return nil, fmt.Errorf("the header %s is there twice", canonical)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return nil, fmt.Errorf("the value of the header %s holds a control character", canonical)
		}
		seen[canonical] = true
		out[canonical] = []string{value}
	}
	return out, nil
}

// isToken reports a name as RFC 9110 wants it.
func isToken(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") == ""
}

// responseHeaders returns headers by name in sorted order until they are too many.
func responseHeaders(in http.Header) (out map[string][]string, truncated bool) {
	out = map[string][]string{}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(in)) {
		for _, value := range in[name] {
			if size += len(name) + len(value); size > maxHeaders {
				return out, true
			}
			out[name] = append(out[name], strings.ToValidUTF8(value, "\uFFFD"))
		}
	}
	return out, false
}

// read takes the body as far as it goes; it is decompressed by then, so a small one that becomes huge is bounded too.
func (f *Fetched) read(ctx context.Context, body io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errFetchTime):
		f.TruncatedBy = "time"
	case err != nil && ctx.Err() != nil:
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		f.TruncatedBy = "the server ended it early"
	case err != nil:
		f.TruncatedBy = clip(err.Error())
	case len(data) > maxBody:
		data, f.TruncatedBy = data[:maxBody], "size"
	}
	text := data
	if f.Truncated = f.TruncatedBy != ""; f.Truncated {
		text = wholeRunes(data)
	}
	if utf8.Valid(text) && !slices.Contains(text, 0) {
		f.Body = string(text)
		return nil
	}
	f.Body, f.Encoding = base64.StdEncoding.EncodeToString(data), "base64"
	return nil
}

// wholeRunes takes off a character that was cut in two.
func wholeRunes(data []byte) []byte {
	for cut := 1; cut < utf8.UTFMax && cut <= len(data); cut++ {
		if tail := data[len(data)-cut:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return data[:len(data)-cut]
			}
			break
		}
	}
	return data
}
