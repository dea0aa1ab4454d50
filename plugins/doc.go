// Package plugins holds the pipeline plugins that come with Assent: rules and records about everybody's tools.
//
//	Retry    stage 3     tries an idempotent tool again
//	Metrics  stages 3, 5 counts calls and outcomes, measures time, by tool
//	Redact   stages 3, 4 takes secrets out of results and error texts before history, logs or the model see them
//	Audit    stage 5     writes one JSON line for each outcome
//	Loop     stage 1     denies a call that its run repeats again and again
//
// Each constructor checks its config and returns a pipeline.Plugin, or a *fault.ConfigError. The zero value of every
// config is useful. Plugins know nothing of each other; what a mounted one has registered goes when its scope closes.
//
// The first mounted is outermost: Redact before plugins that look at results, Metrics before Retry to measure the whole,
// pipeline.Timeout after Retry to clock each attempt. Whoever builds a worker mounts them, by Config.Plugins.
package plugins
