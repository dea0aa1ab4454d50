package layout

// Module is the path of the module that the table describes; the nested module devserver/ is outside.
const Module = "github.com/assent-dev/assent"

// Room is one package: where it is, how high, what for.
type Room struct {
	// Dir is relative to the module; "." is its root, and a last element * stands for any one folder.
	Dir   string
	Floor int
	// Job is one line.
	Job string
	// Third lists the third-party modules, or packages of them, that the room may import; nothing else is allowed.
	Third []string
	// Never lists imports that its floor would allow and its job forbids: packages of this module, or of the
	// standard library.
	Never []string
}

// PureBelow is the first floor that may know Temporal: nothing below it reaches the SDK, not even through others.
const PureBelow = 6

// Modules that more than one room may use.
const (
	temporalSDK = "go.temporal.io/sdk"
	temporalAPI = "go.temporal.io/api"
	grpc        = "google.golang.org/grpc"
	yaml        = "github.com/goccy/go-yaml"
	shell       = "mvdan.cc/sh/v3"
	testify     = "github.com/stretchr/testify"
)

// effects are what a package that only thinks does not import.
var effects = []string{"os", "io/fs", "net", "net/http", "syscall", "math/rand", "crypto/rand"}

// unrepeatable is what workflow code does not import, because its replay would differ. workflowcheck finds calls;
// this finds what it does not look for, such as reading a file.
var unrepeatable = append([]string{"activities", "sync", "context", "log", "log/slog"}, effects...)

// Rooms is the table. Within a floor the order is that in which a reader meets the packages.
var Rooms = []Room{
	{"fault", 0, "what failed, and whether trying again can help", nil, effects},
	{"internal/canonjson", 0, "canonical JSON bytes and their sha256", nil, effects},
	{"internal/hostname", 0, "the one form of a host, for rules and for connections", []string{"golang.org/x/net/idna"}, effects},
	{"internal/procfs", 0, "which processes of a Linux host live, carry a mark or are just beginning, and signals to no other", nil, []string{"os/exec", "net", "net/http"}},
	{"permission/argv", 0, "shell text to segments of literal tokens; token patterns", []string{shell + "/syntax"}, effects},

	{"blob", 1, "content-addressed bytes: the interface, the directory driver and the one in memory", nil, nil},
	{"internal/gitproc", 1, "one configured git binary, run closed, bounded and reaped", []string{"golang.org/x/sys"}, nil},
	{"internal/secret", 1, "a key or token from the environment or a file, read at each use, never shown", nil, []string{"net", "net/http"}},
	{"internal/stdioproc", 1, "a program spoken to by stdin and stdout, which cannot outlive the worker", []string{"golang.org/x/sys"}, []string{"net", "net/http"}},
	{"worktree", 1, "isolation, lease, patch, provider: words and policy, no git", nil, effects},

	{"worktree/git/pack", 1, "git objects from packs and loose files, each hashed, damage an error", nil, []string{"os/exec", "net/http"}},

	{"tool", 2, "definitions, schemas, contracts, validation, results", []string{
		"github.com/invopop/jsonschema", "github.com/santhosh-tekuri/jsonschema/v6", "golang.org/x/net/idna", "golang.org/x/text",
	}, effects},
	{"worktree/git", 2, "the worktree driver on go-git; starts git only for what that cannot serve", []string{
		"github.com/go-git/go-git/v5", "github.com/go-git/go-billy/v5", "golang.org/x/sys",
	}, []string{"os/exec", "net/http"}},
	{"blob/blobtest", 2, "the conformance suite of blob stores", []string{testify}, nil},

	{"permission", 3, "verdict, rules, presets, the chain: a pure decision with its reasons", nil, effects},
	{"model", 3, "what the engine and a language model say to each other", nil, effects},
	{"toolbox", 3, "first-party tools: files, shell, exec, fetch, escalate, report_progress", []string{shell}, nil},

	{"approval", 4, "question, answer, key, ledger: words and rules, no waiting", nil, effects},
	{"pipeline", 4, "the five stages of a call, plugins as scopes", nil, []string{"os", "net/http"}},
	{"transcript", 4, "the conversation of an agent as it is stored: hash-chained, compacted, verified", nil, effects},
	{"model/scripted", 4, "a model that plays a YAML script", []string{yaml}, nil},
	{"model/cassette", 4, "what a model was asked and said, recorded and played back", nil, []string{"net", "net/http"}},
	{"model/endpoint", 4, "the way to a provider's API: address, key, bounds, and what a failure means", nil, nil},

	{"model/anthropic", 5, "the driver of Anthropic's Messages API", []string{"github.com/anthropics/anthropic-sdk-go/v2"}, nil},
	{"model/openai", 5, "the driver of OpenAI's Responses and Chat Completions, and of servers that speak them", []string{"github.com/openai/openai-go/v3"}, nil},
	{"mcp", 5, "tools of MCP servers: sessions, listings, calls, results, all bounded", []string{"github.com/modelcontextprotocol/go-sdk"}, nil},
	{"model/modeltest", 5, "providers on loopback that speak the wire formats, for tests", nil, nil},
	{"internal/mcptest", 5, "MCP servers for tests: good, hostile, the SDK's examples, servers from npm", nil, nil},
	{"internal/mcptest/server", 5, "the good and the hostile server, as a program", []string{"github.com/modelcontextprotocol/go-sdk"}, nil},
	{"plugins", 5, "retry, metrics, redaction, audit, loop detection: plugins for everybody's tools", nil, []string{"os", "net/http", "expvar"}},
	{"protocol", 5, "every name and payload on the Temporal wire", nil, effects},

	{"workflows", 6, "deterministic: the agent loop, the gate, approvals, isolation", []string{temporalSDK, temporalAPI}, unrepeatable},
	{"storage", 6, "blob stores as external storage of Temporal and the other way round; histories with offloaded payloads", []string{temporalSDK, temporalAPI, "google.golang.org/protobuf"}, []string{"workflows"}},
	{"internal/history", 6, "histories as a server has written them, each event once", []string{temporalSDK, temporalAPI}, []string{"workflows"}},
	{"config", 6, "assent.yaml, strictly", []string{yaml}, []string{"net/http"}},

	{"activities", 7, "side effects: resolve, generate, decide, admit, run a tool, worktrees, observe", []string{temporalSDK, temporalAPI}, []string{"workflows"}},

	{"worker", 8, "New and NewGuard: each one Temporal Plugin", []string{temporalSDK}, nil},

	{"telemetry", 8, "OpenTelemetry spans and metrics of agents, by the API alone", []string{temporalSDK, temporalAPI,
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace"},
		[]string{"worker", "activities", "os", "net", "net/http"}},

	{".", 9, "the front door: New and NewGuard under one import", []string{temporalSDK}, nil},
	{"assenttest", 9, "an agent in the SDK's test environment: scripted turns, answers from a function", []string{temporalSDK}, nil},
	{"internal/exit", 9, "`error:` and `hint:` lines and exit codes of the commands", nil, []string{"worker", "workflows", "activities"}},
	{"follow", 9, "history to events, each once; needs a server and no worker", []string{temporalSDK, temporalAPI}, []string{"worker", "workflows", "activities"}},
	{"internal/verify", 9, "what a history proves: every tool call was permitted, or which was not", []string{temporalSDK, temporalAPI}, []string{"worker", "workflows", "activities", "os", "net", "net/http"}},
	{"internal/devserver", 9, "find, build, start and stop a development server", []string{temporalAPI, grpc, "golang.org/x/sys"}, []string{"worker", "workflows", "activities"}},

	{"internal/connect", 10, "a client to the server that flags, variables and profiles name", []string{temporalSDK, temporalAPI}, []string{"worker", "workflows", "activities"}},
	{"garbage", 10, "which blobs no run needs: asks the server, reads histories, keeps in doubt", []string{temporalSDK, temporalAPI, "google.golang.org/protobuf"}, []string{"worker", "workflows", "activities"}},
	{"internal/devserver/devservertest", 10, "one development server for each test process", nil, nil},

	{"internal/workerproc", 11, "the stock worker as a process", []string{temporalSDK, "github.com/spf13/cobra"}, nil},

	{"internal/demo", 12, "server, worker and repository of a demonstration, in one folder", []string{temporalSDK, "github.com/go-git/go-git/v5", "github.com/rogpeppe/go-internal/txtar", "golang.org/x/sys"}, nil},

	{"cmd/starter", 13, "the operator's and developer's command", []string{temporalSDK, temporalAPI, "github.com/spf13/cobra"}, nil},
	{"cmd/worker", 13, "the stock worker, configured by a file", nil, nil},
	{"examples/*", 13, "programs to copy from, each under 80 lines", []string{temporalSDK, temporalAPI}, nil},

	{"internal/e2e", 14, "end-to-end tests: a real server, real workers, history as the witness", nil, nil},
	{"internal/e2e/replaytest", 14, "recorded histories, replayed", []string{temporalSDK, temporalAPI, testify}, nil},
	{"internal/bench", 14, "what gate, engine and worktrees cost, measured against the bare SDK and the git program in the same run", []string{temporalSDK, temporalAPI}, nil},
	{"internal/layout", 14, "this table and the test of it", nil, nil},
}
