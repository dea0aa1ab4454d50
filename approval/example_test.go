package approval_test

import (
	"encoding/json"
	"fmt"

	"github.com/assent-dev/assent/approval"
)

func Example() {
	input := json.RawMessage(`{"command":"make deploy"}`)
	content, err := approval.ContentKey("shell", input)
	if err != nil {
		fmt.Println(err)
		return
	}
	ledger := approval.NewLedger()
	question := ledger.Open(approval.Approval{Tool: "shell", Input: input, Seal: approval.Seal{ContentKey: content}})
	fmt.Println("pending:", ledger.Keys())

	for _, data := range []string{`"yes"`, `{"key":"` + question.Key + `","decision":"deny","by":"alice"}`, `"deny"`} {
		answers, err := approval.Decode([]byte(data), ledger.Asked(), ledger.Standing())
		if err != nil {
			fmt.Println(err)
			continue
		}
		for _, a := range answers {
			if ledger.Answer(a.Key) == nil {
				fmt.Println(a.By, "says", a.Decision)
				ledger.Close(approval.Closed{Key: a.Key, How: approval.Denied})
			}
		}
	}
	// Output:
	// pending: [shell-14b9be7d]
	// answer ignored: the word "yes" is neither allow nor deny
	// alice says deny
	// answer ignored: nothing is pending
}
