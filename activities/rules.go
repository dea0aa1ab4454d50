package activities

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/assent-dev/assent/permission"
	"github.com/assent-dev/assent/protocol"
	"github.com/assent-dev/assent/tool"
)

// rules is the policy that this worker has for a call now, compiled when the tool first asks. A worker without the
// profile, or with rules of the agent that it cannot read, refuses everything that is asked.
func (e *Engine) rules(call tool.Call) tool.Rules {
	return callRules{get: sync.OnceValues(func() (tool.Rules, error) {
		s := protocol.Subject{Isolation: call.Isolation}
		if call.Agent != nil {
			s.Profile = call.Agent.Type
		}
		if len(call.Tighten) > 0 {
			s.Tighten = &protocol.Tighten{}
			if err := json.Unmarshal(call.Tighten, s.Tighten); err != nil {
				return nil, &permission.RuleError{Table: "deny", Subject: call.Name, Cause: fmt.Errorf("the agent's own rules: %w", err)}
			}
		}
		if len(call.Parents) > 0 {
			if err := json.Unmarshal(call.Parents, &s.Parents); err != nil {
				return nil, &permission.RuleError{Table: "deny", Subject: call.Name, Cause: fmt.Errorf("the rules of the agents above: %w", err)}
			}
		}
		chain, err := e.chain(s)
		if err != nil {
			return nil, &permission.RuleError{Table: "deny", Subject: call.Name, Cause: err}
		}
		return chain.Rules(call.Name), nil
	})}
}

type callRules struct{ get func() (tool.Rules, error) }

func (r callRules) Argv(argv []string) error {
	rules, err := r.get()
	if err != nil {
		return err
	}
	return rules.Argv(argv)
}

func (r callRules) Host(host string, asked bool) error {
	rules, err := r.get()
	if err != nil {
		return err
	}
	return rules.Host(host, asked)
}
