// Package model holds the words between the engine and a language model: messages, requests, responses, usage.
//
// A Model is a driver without its own retries; its errors say whether trying again can help and after how long.
// Drivers live in the packages below this one; only activities call them.
package model
