package devserver

import (
	"maps"
	"net"
	"slices"
	"strconv"

	enumspb "go.temporal.io/api/enums/v1"
)

// The section devserver of temporal-dev.yaml, for a Temporal command, which does not read that file. A test compares
// the two.
var (
	searchAttributes = map[string]enumspb.IndexedValueType{
		"AssentStatus":      enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"AssentAgent":       enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"AssentPendingTool": enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST,
		"AssentRoot":        enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	}
	// dynamicConfig is what makes a server fast enough for tests: a tool call takes 11 ms instead of 100.
	dynamicConfig = map[string]string{
		"history.transferProcessorMaxPollRPS":            "2000",
		"history.timerProcessorMaxPollRPS":               "2000",
		"matching.numTaskqueueReadPartitions":            "1",
		"matching.numTaskqueueWritePartitions":           "1",
		"system.forceSearchAttributesCacheRefreshOnRead": "true",
		"system.forceNexusEndpointRefreshOnRead":         "true",
		"frontend.persistenceMaxQPS":                     "10000",
		"history.persistenceMaxQPS":                      "45000",
		"frontend.namespaceRPS.visibility":               "100",
		"frontend.enableServerVersionCheck":              "false",
	}
	// sqlitePragmas are for a database file. A killed process loses nothing in WAL mode.
	sqlitePragmas = map[string]string{"journal_mode": "wal", "synchronous": "normal"}
)

// loopback is where every server listens.
const loopback = "127.0.0.1"

// chosenPorts are the ports that a server is told to use. UI is 0 for one without a web UI.
type chosenPorts struct{ grpc, http, ui int }

// arguments is the command line, the same for the Temporal command and for ours.
func arguments(o StartOptions, p chosenPorts) []string {
	args := []string{
		"server", "start-dev", "--ip", loopback,
		"--port", strconv.Itoa(p.grpc), "--http-port", strconv.Itoa(p.http),
		"--namespace", o.Namespace, "--log-level", "warn",
	}
	if p.ui == 0 {
		args = append(args, "--headless")
	} else {
		args = append(args, "--ui-port", strconv.Itoa(p.ui))
	}
	if o.DBFile != "" {
		args = append(args, "--db-filename", o.DBFile)
		for _, name := range slices.Sorted(maps.Keys(sqlitePragmas)) {
			args = append(args, "--sqlite-pragma", name+"="+sqlitePragmas[name])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(dynamicConfig)) {
		args = append(args, "--dynamic-config-value", key+"="+dynamicConfig[key])
	}
	for _, name := range slices.Sorted(maps.Keys(searchAttributes)) {
		args = append(args, "--search-attribute", name+"="+searchAttributes[name].String())
	}
	return args
}

func hostPort(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
