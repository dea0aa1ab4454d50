// Command approvals is a service that gives one of the allows that a policy wants: it signs for questions that pass its own
// rule, and leaves the others to people. Make its key with: starter keygen robot.pem --name robot
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/assent-dev/assent/approval"
	"github.com/assent-dev/assent/protocol"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("approvals", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("address", os.Getenv("TEMPORAL_ADDRESS"), "the Temporal server; empty means 127.0.0.1:7233")
	id := flags.String("id", "fix-1234", "the workflow id of the agent whose questions are answered")
	file := flags.String("key", "robot.pem", "the private key of robot, a member of the groups that may answer")
	if flags.Parse(args) != nil {
		return 2
	}
	fail := func(why any) int { fmt.Fprintln(stderr, "error:", why); return 1 }
	text, err := os.ReadFile(*file)
	block, _ := pem.Decode(text)
	if err != nil || block == nil {
		return fail(fmt.Sprintf("no key in PEM: %s: %v", *file, err))
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return fail(fmt.Sprintf("no ed25519 key: %s: %v", *file, err))
	}
	c, err := client.Dial(client.Options{HostPort: *address})
	if err != nil {
		return fail(err)
	}
	defer c.Close()
	ended := make(chan error, 1)
	go func() { ended <- c.GetWorkflow(ctx, *id, "").Get(ctx, nil) }()
	for seen := map[string]bool{}; ; {
		select {
		case err := <-ended:
			if err != nil {
				return fail(err)
			}
			return 0
		case <-time.After(time.Second / 4):
		}
		var asked protocol.Approvals
		if value, err := c.QueryWorkflow(ctx, *id, "", protocol.QueryApprovals); err != nil || value.Get(&asked) != nil {
			continue // no worker yet, or the agent has just ended
		}
		for _, q := range asked.Pending {
			var in struct{ Command string }
			if seen[q.Key] || json.Unmarshal(q.Input, &in) != nil || !strings.HasPrefix(in.Command, "go vet ") {
				continue
			}
			// The signature is over the question as it was asked, in this run. The worker judges the call once more.
			r, err := approval.Sign(q, approval.Resolution{Decision: approval.Allow, Reason: "it only looks"}, "robot", key)
			if err == nil {
				err = c.SignalWorkflow(ctx, *id, "", protocol.SignalApproval, r)
			}
			seen[q.Key] = err == nil
			fmt.Fprintf(stdout, "signed for %s: %s (%d of %d allows before), error: %v\n", q.Key, in.Command, len(q.Votes), q.Needs(), err)
		}
	}
}
