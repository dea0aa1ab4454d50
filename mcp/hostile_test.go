package mcp_test

var rawServers = map[string]rawServer{}
