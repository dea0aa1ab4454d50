package mcp

import "time"

// calm slows down the reading of a server that talks while nobody has asked for anything. A flood of notifications would take
// a core of the worker; what is not read makes the server wait.
type calm struct {
	since time.Time
	count int
	// stir ends a pause, because somebody asks.
	stir chan struct{}
}

// A server may send mostTalk messages in each calmTime. A large one counts as one for each talkSize bytes.
const (
	mostTalk = 100
	calmTime = 100 * time.Millisecond
	talkSize = 4 << 10
)

func (c *calm) wake() {
	select {
	case c.stir <- struct{}{}:
	default:
	}
}

// dropped is called after a message of that many bytes that nobody waited for.
func (c *calm) dropped(size int, busy func() bool, done <-chan struct{}) {
	if now := time.Now(); now.Sub(c.since) >= calmTime {
		c.since, c.count = now, 0
	}
	if c.count += 1 + size/talkSize; c.count <= mostTalk {
		return
	}
	select {
	case <-c.stir: // of a request that is over, maybe
	default:
	}
	if busy() {
		return
	}
	pause := time.NewTimer(calmTime * time.Duration(c.count) / mostTalk)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-c.stir:
	case <-done:
	}
}
