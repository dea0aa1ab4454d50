// Package cassette records what a model was asked and what it said, and plays that back without the model.
//
// A cassette is a file of JSON lines, one for each request, made to be read and committed. It lies above the drivers, so that it
// holds no headers and no keys, and serves every provider; what the process has for secrets in its environment is struck out of the
// texts as well. A player answers a request that was recorded and no other, and says where one differs.
package cassette
