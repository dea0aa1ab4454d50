//go:build unix

package toolbox

import "syscall"

// signalGroups sends sig to the process groups that the call left behind and returns how many there are. It is what
// a system without a process directory offers: processes that started groups of their own are not found.
func (j *jobs) signalGroups(sig syscall.Signal) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := 0
	for pgid := range j.left {
		if syscall.Kill(-pgid, sig) != nil {
			delete(j.left, pgid)
			continue
		}
		found++
	}
	return found
}
