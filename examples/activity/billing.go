package main

import (
	"context"
	"fmt"
	"io"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

// schema says what SendInvoice takes.
const schema = `{"type":"object","properties":{"customer":{"type":"string"},"cents":{"type":"integer"}},"required":["customer","cents"]}`

// billing is what another team has had all along, in any language. It knows nothing of agents.
type billing struct{ ledger io.Writer }

func (b billing) SendInvoice(_ context.Context, customer string, cents int) error {
	_, err := fmt.Fprintf(b.ledger, "billing: invoice over %d cents sent to %s\n", cents, customer)
	return err
}

func (b billing) worker(c client.Client) worker.Worker {
	w := worker.New(c, "billing", worker.Options{})
	w.RegisterActivity(&b)
	return w
}
