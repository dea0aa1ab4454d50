package toolbox

import (
	"context"
	"errors"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// The interpreter runs in the worker's process, so a command line that eats memory or stack would take the worker
// with it. These bounds end the call instead. They are far above what a sensible command needs.
const (
	maxMemory     = 512 << 20
	maxGoroutines = 2000
	// maxFrames is the depth of the Go stack; a shell function that calls itself adds about ten frames.
	maxFrames = 20_000
)

var (
	errMemory = errors.New("the command line needs too much memory in the shell itself")
	errJobs   = errors.New("the command line starts too many background jobs")
	errDepth  = errors.New("the command line calls functions too deeply")
)

// limits watches what an interpreted command line costs the worker.
type limits struct {
	stop       context.CancelCauseFunc
	memory     uint64
	goroutines int
	calls      *atomic.Int64
}

func newLimits(stop context.CancelCauseFunc, memory uint64) limits {
	return limits{stop: stop, memory: memory, goroutines: runtime.NumGoroutine() + maxGoroutines, calls: new(atomic.Int64)}
}

// checkDepth runs before every command and looks now and then, because counting frames takes time.
func (l *limits) checkDepth() error {
	n := l.calls.Add(1)
	if n%64 == 0 && runtime.NumGoroutine() > l.goroutines {
		l.stop(errJobs)
		return errJobs
	}
	var frame [1]uintptr
	if n%256 == 0 && runtime.Callers(maxFrames, frame[:]) > 0 {
		l.stop(errDepth)
		return errDepth
	}
	return nil
}

// watchMemory ends the call when the process has grown too much since it began.
func (l *limits) watchMemory(ctx context.Context) {
	before := memoryInUse()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := memoryInUse()
		before = min(before, now)
		if now <= before+l.memory {
			continue
		}
		// What is garbage already is nobody's fault; look again without it before ending anything.
		runtime.GC()
		now = memoryInUse()
		before = min(before, now)
		if now > before+l.memory {
			l.stop(errMemory)
			return
		}
	}
}

// memoryInUse returns the bytes of heap objects and goroutine stacks.
func memoryInUse() uint64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
	}
	metrics.Read(samples)
	var sum uint64
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			sum += s.Value.Uint64()
		}
	}
	return sum
}
