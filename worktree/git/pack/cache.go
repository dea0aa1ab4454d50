package pack

import (
	"container/list"
	"sync"
)

// cache keeps the objects that were used last, as bases of deltas, up to a number of bytes.
type cache struct {
	mu         sync.Mutex
	most, size int64
	byPlace    map[place]*list.Element
	byUse      *list.List // of *cached, the last used first
}

type cached struct {
	at   place
	kind Kind
	data []byte
}

func newCache(most int64) cache {
	return cache{most: most, byPlace: map[place]*list.Element{}, byUse: list.New()}
}

func (c *cache) get(at place) (Kind, []byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byPlace[at]
	if !ok {
		return 0, nil, false
	}
	c.byUse.MoveToFront(e)
	got := e.Value.(*cached)
	return got.kind, got.data, true
}

func (c *cache) put(at place, kind Kind, data []byte) {
	if len(data) > cacheEntry {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byPlace[at] != nil {
		return
	}
	c.byPlace[at] = c.byUse.PushFront(&cached{at, kind, data})
	c.size += int64(len(data))
	for c.size > c.most {
		last := c.byUse.Remove(c.byUse.Back()).(*cached)
		delete(c.byPlace, last.at)
		c.size -= int64(len(last.data))
	}
}
