package fault_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/assent-dev/assent/fault"
)

// forged claims to be an error of the runtime.
type forged struct{}

func (forged) Error() string { return "secret" }
func (forged) RuntimeError() {}

func TestPanicKind(t *testing.T) {
	thrown := func(f func()) (v any) {
		defer func() { v = recover() }()
		f()
		return nil
	}
	var list []int
	for want, v := range map[string]any{
		"a value of type string":                                           "secret",
		"a value of type *errors.errorString":                              errors.New("secret"),
		"a value of type fault_test.forged":                                forged{},
		"a value of type *fault_test.forged":                               (*forged)(nil),
		"nil":                                                              nil,
		"runtime error: index out of range [3] with length 0":              thrown(func() { _ = list[len(list)+3] }),
		"interface conversion: interface {} is string, not int":            thrown(func() { _ = any("secret").(int) }),
		"runtime error: invalid memory address or nil pointer dereference": thrown(func() { _ = *(*int)(nil) }),
	} {
		assert.Equal(t, want, fault.PanicKind(v))
	}
}
