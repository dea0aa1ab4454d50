package telemetry

import (
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
)

// SchemaURL names the version of the semantic conventions that the gen_ai names are of: the last one of OpenTelemetry's main
// repository that has them.
const SchemaURL = "https://opentelemetry.io/schemas/1.41.0"

// Names of the semantic conventions for GenAI.
const (
	genOperation    = attribute.Key("gen_ai.operation.name")
	genProvider     = attribute.Key("gen_ai.provider.name")
	genAgentName    = attribute.Key("gen_ai.agent.name")
	genAgentID      = attribute.Key("gen_ai.agent.id")
	genConversation = attribute.Key("gen_ai.conversation.id")
	genRequestModel = attribute.Key("gen_ai.request.model")
	genRequestMost  = attribute.Key("gen_ai.request.max_tokens")
	genResponse     = attribute.Key("gen_ai.response.model")
	genFinish       = attribute.Key("gen_ai.response.finish_reasons")
	genInput        = attribute.Key("gen_ai.usage.input_tokens")
	genCached       = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	genOutput       = attribute.Key("gen_ai.usage.output_tokens")
	genToolName     = attribute.Key("gen_ai.tool.name")
	genToolType     = attribute.Key("gen_ai.tool.type")
	genToolCall     = attribute.Key("gen_ai.tool.call.id")
	genTokenType    = attribute.Key("gen_ai.token.type")
	errorType       = attribute.Key("error.type")

	metricTokens   = "gen_ai.client.token.usage"
	metricDuration = "gen_ai.client.operation.duration"

	opAgent = "invoke_agent"
	opChat  = "chat"
	opTool  = "execute_tool"
)

// Names of our own.
const (
	keyVerdict   = attribute.Key("assent.verdict")
	keyDecidedBy = attribute.Key("assent.decided_by")
	keyRule      = attribute.Key("assent.rule")
	keyPolicy    = attribute.Key("assent.policy.digest")
	keyApproval  = attribute.Key("assent.approval.key")
	keyHow       = attribute.Key("assent.approval.how")
	keyVia       = attribute.Key("assent.approval.via")
	keyWait      = attribute.Key("assent.approval.wait")
	keyCode      = attribute.Key("assent.code")
	keyAttempt   = attribute.Key("assent.attempt")
	keyTurn      = attribute.Key("assent.turn")
	keyCost      = attribute.Key("assent.cost")
	keyUnpriced  = attribute.Key("assent.unpriced_turns")
	keyStatus    = attribute.Key("assent.status")
	keyTurns     = attribute.Key("assent.turns")
	keyCalls     = attribute.Key("assent.calls")
	keyAsked     = attribute.Key("assent.asked")
	keyRestarts  = attribute.Key("assent.restarts")
	keyLabel     = attribute.Key("assent.label")

	// Those that Temporal's own tracing interceptor sets.
	keyWorkflow = attribute.Key("temporalWorkflowID")
	keyRun      = attribute.Key("temporalRunID")
	keyActivity = attribute.Key("temporalActivityID")
)

// The names of our metrics.
const (
	// MetricDecisions counts decisions, by tool, verdict and layer.
	MetricDecisions = "assent.decisions"
	// MetricApprovalWait is how long a question waited until it closed, in seconds, by tool and how it closed.
	MetricApprovalWait = "assent.approval.wait"
	// MetricToolDuration is how long a call took on its worker, in seconds, by tool and code.
	MetricToolDuration = "assent.tool.duration"
	// MetricCost is what models cost, in US dollars, by model and agent type.
	MetricCost = "assent.cost"
)

// Other stands for names beyond Config.MaxNames.
const Other = "other"

// labels bounds the values of an attribute of a metric.
type labels struct {
	mu    sync.Mutex
	most  int
	known map[string]bool
}

func (l *labels) of(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.known[name]:
		return name
	case len(l.known) >= l.most:
		return Other
	}
	if l.known == nil {
		l.known = map[string]bool{}
	}
	l.known[name] = true
	return name
}

// provider splits `provider:name`.
func provider(model string) (provider, name string) {
	p, n, ok := strings.Cut(model, ":")
	if !ok {
		return "", model
	}
	return p, n
}
