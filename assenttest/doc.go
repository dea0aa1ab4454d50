// Package assenttest runs an agent of yours in the SDK's test environment: your profile, tools, rules and plugins behind the real
// gate, a model that says what the test tells it to, and answers from a function. There is no server and no worker, and days of
// waiting pass at once.
//
// What it does not show is what a server does: crashes, replays, continuing as new. For those, run the agent on a development
// server.
package assenttest
