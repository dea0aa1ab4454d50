// Package endpoint is the way to a model provider's API over HTTP: its address, the key, and what a failure means.
//
// Everything that drivers of different wire formats have in common is in one http.Client. It makes one attempt and follows
// no redirect. A response that is no event stream never reaches a driver: it becomes a *model.Error with a kind, whether
// trying again can help, and after how long. The key is read for each attempt and set on a copy of the request, so that
// neither a driver, nor its SDK, nor an error ever holds it.
package endpoint
