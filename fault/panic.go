package fault

import (
	"fmt"
	"reflect"
)

// PanicKind tells what a panic threw for a log: the text of an error of the Go runtime, else the type alone, because
// the text of anything else may hold a secret that the panicking code was working on.
func PanicKind(v any) string {
	t := reflect.TypeOf(v)
	if t == nil {
		return "nil"
	}
	elem := t
	if t.Kind() == reflect.Pointer {
		elem = t.Elem()
	}
	if err, ok := v.(error); ok && elem.PkgPath() == "runtime" {
		return err.Error()
	}
	return fmt.Sprintf("a value of type %T", v)
}
