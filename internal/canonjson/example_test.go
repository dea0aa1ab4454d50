package canonjson_test

import (
	"fmt"

	"github.com/assent-dev/assent/internal/canonjson"
)

func Example() {
	canonical, err := canonjson.Canonical([]byte(`{ "id": 9007199254740993, "cost": 1.50, "name": "caf\u00e9" }`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(canonical))
	fmt.Println(canonjson.SHA256(canonical)[:8])

	_, err = canonjson.Canonical([]byte(`{"path":"a","path":"b"}`))
	fmt.Println(err)
	// Output:
	// {"cost":1.5,"id":9007199254740993,"name":"café"}
	// 6fe076e6
	// json "/path": duplicate key at byte 12
}
