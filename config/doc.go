// Package config reads assent.yaml: one schema with the sections engine, profiles, models, mcp and worker.
//
// Nothing is half-loaded: the first thing wrong, in form or in meaning, is a *fault.ConfigError that names file,
// line, column and what would have been right, and inline tests of rules are run. YAML is a means only: anchors,
// tags, several documents, repeated keys and unknown keys are refused. A policy file is the sections engine and
// profiles alone, read by the same function.
//
// The worker and the command load files; nothing here opens a repository, a model or a connection.
package config
