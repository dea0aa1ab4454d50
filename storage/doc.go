// Package storage joins the blob store of Assent and the external storage of Temporal, so that a team configures one of
// them: NewDriver makes a blob.Store a driver for client.Options.ExternalStorage, FromDriver makes a team's driver a
// blob.Store. Reading shows histories whose payloads were offloaded.
//
// It is a room of its own, and not a part of worker, because programs that only start agents or read histories need it too
// and nothing of the engine.
package storage
