package pipeline

// HasObservers reports whether anybody watches stage 5, so that a caller can spare the work of telling nobody.
func (p *Pipeline) HasObservers() bool { return len(p.live.Load().observers) > 0 }
