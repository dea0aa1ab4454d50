package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/mcp"
	"github.com/assent-dev/assent/tool"
)

// rawServers are made by hand, because the SDK's server cannot misbehave.
var rawServers = map[string]rawServer{
	"exits": func(request, func(string)) {
		fmt.Fprintln(os.Stderr, "no such database")
		os.Exit(7)
	},
	"prints variables": func(request, func(string)) {
		fmt.Fprintf(os.Stderr, "I got %s and more\n", os.Getenv("MCP_TEST_PASSED"))
		os.Exit(3)
	},
	"prints variables at calls": func(r request, write func(string)) {
		if !usual(r, write) {
			fmt.Fprintf(os.Stderr, "I got %s and more\n", os.Getenv("MCP_TEST_PASSED"))
			os.Exit(3)
		}
	},
	"prints variables without end": func(_ request, write func(string)) {
		for {
			write("I got " + strings.ReplaceAll(os.Getenv("MCP_TEST_PASSED"), "\n", " and then ") + strings.Repeat(" and more", 1000))
		}
	},
	"announces": func(r request, write func(string)) {
		if !usual(r, write) {
			write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			write(reply(r, `{"content":[]}`))
		}
	},
	"silent": func(request, func(string)) {},
	"silent at list": func(r request, write func(string)) {
		if r.Method != "tools/list" {
			usual(r, write)
		}
	},
	"silent at call": func(r request, write func(string)) { usual(r, write) },
	"only prints": func(r request, write func(string)) {
		if r.Method == "" {
			write("Starting the server, please stand by")
		}
	},
	"prints and exits": func(_ request, write func(string)) {
		write("Usage: server --port")
		os.Exit(2)
	},
	"prints without end": func(_ request, write func(string)) {
		for {
			write("a log line of a server that does not know where logs go")
		}
	},
	"prints": func(r request, write func(string)) {
		write(`Starting…`)
		write(`{"level":"info","msg":"got a request"}`)
		write(``)
		write(`[1,2]`)
		write(`{"jsonrpc":"2.0"`)
		if !usual(r, write) {
			write(reply(r, `{"content":[{"type":"text","text":"heard"}]}`))
		}
		write("\x00\xff")
	},
	"dies at calls": func(r request, write func(string)) {
		if r.Method == "" && r.ID == nil && r.Params == nil {
			put(os.Getenv("MCP_TEST_FILE"), "started")
		}
		if !usual(r, write) {
			put(os.Getenv("MCP_TEST_FILE"), "called")
			os.Exit(9)
		}
	},
	"looping cursor": listing(func(string) string { return `{"tools":[],"nextCursor":"again"}` }),
	"endless pages": listing(func(cursor string) string {
		return fmt.Sprintf(`{"tools":[],"nextCursor":"%sx"}`, cursor)
	}),
	"500 tools":  listing(func(string) string { return manyTools(500) }),
	"1001 tools": listing(func(string) string { return manyTools(1001) }),
	"no list":    listing(func(string) string { return `{"tools":5}` }),
	"null list":  listing(func(string) string { return `null` }),
	"bad tools":  listing(func(string) string { return badTools }),
	"changes": func() rawServer {
		n := 0
		return listing(func(string) string {
			n++
			return fmt.Sprintf(`{"tools":[{"name":"a","description":"version %d","inputSchema":{"type":"object"}}]}`, n)
		})
	}(),
	"strays": func(r request, write func(string)) {
		write(`{"jsonrpc":"2.0","id":999,"result":{}}`)
		write(`{"jsonrpc":"2.0","id":"a","result":{"tools":[]}}`)
		write(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`)
		again := func(text string) { write(text); write(text) }
		if !usual(r, again) {
			again(reply(r, `{"content":[{"type":"text","text":"heard"}]}`))
		}
	},
	"asks": func(r request, write func(string)) {
		if usual(r, write) {
			return
		}
		write(`{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`)
		write(`{"jsonrpc":"2.0","id":"e1","method":"elicitation/create","params":{}}`)
		write(`{"jsonrpc":"2.0","id":"r1","method":"roots/list"}`)
		write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"I cannot think without a model"}}`, *r.ID))
	},
	"storms": func(r request, write func(string)) {
		if r.Method == "" {
			return // or each answer to a ping would be a storm
		}
		for i := range long(100, 5_000) {
			write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			write(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
			write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}`)
			write(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p%d","method":"ping"}`, i))
		}
		if !usual(r, write) {
			write(reply(r, `{"content":[{"type":"text","text":"heard"}]}`))
		}
	},
	"batches": func(r request, write func(string)) {
		all := func(text string) {
			write(`[{"jsonrpc":"2.0","method":"notifications/message","params":{}},` + text + `]`)
		}
		if !usual(r, all) {
			all(reply(r, `{"content":[{"type":"text","text":"heard"}]}`))
		}
	},
	"large": func(r request, write func(string)) {
		if usual(r, write) {
			return
		}
		if strings.Contains(string(r.Params), "small") {
			write(reply(r, `{"content":[{"type":"text","text":"small"}]}`))
			return
		}
		big := strings.Repeat("x", long(17, 50)<<20)
		if strings.Contains(string(r.Params), "id last") {
			write(fmt.Sprintf(`{"result":{"content":[{"type":"text","text":"%s"}]},"jsonrpc":"2.0","id":%d}`, big, *r.ID))
			return
		}
		write(reply(r, `{"content":[{"type":"text","text":"`+big+`"}]}`))
	},
	"newest protocol": func(r request, write func(string)) {
		switch r.Method {
		case "initialize":
			write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"method not found"}}`, *r.ID))
		case "server/discover":
			write(reply(r, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`))
		case "tools/list":
			write(reply(r, `{"resultType":"complete","ttlMs":600000,"tools":[`+echoTool+`]}`))
		case "tools/call":
			write(reply(r, `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{}}}}`))
		}
	},
	"null": func(r request, write func(string)) {
		if !usual(r, write) {
			write(reply(r, `null`))
		}
	},
	"stops reading": func(r request, write func(string)) {
		if !usual(r, write) {
			time.Sleep(time.Hour)
		}
	},
}

// long is how much of something there is, usually and in the long suite.
func long(usual, long int) int {
	if os.Getenv("ASSENT_LONG") == "1" {
		return long
	}
	return usual
}

// listing is a server whose list is that of a cursor.
func listing(list func(cursor string) string) rawServer {
	return func(r request, write func(string)) {
		if r.Method != "tools/list" {
			usual(r, write)
			return
		}
		var p struct {
			Cursor string `json:"cursor"`
		}
		_ = json.Unmarshal(r.Params, &p)
		write(reply(r, list(p.Cursor)))
	}
}

func manyTools(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{"name":"t%d","description":"d","inputSchema":{"type":"object"}}`, i))
	}
	return `{"tools":[` + strings.Join(all, ",") + `]}`
}

// byHand serves a raw server over HTTP.
func byHand(t *testing.T, s rawServer, stream bool) mcp.Config {
	return httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		var r request
		if json.NewDecoder(hr.Body).Decode(&r) != nil || r.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		kind := "application/json"
		if stream {
			kind = "text/event-stream"
		}
		w.Header().Set("Content-Type", kind)
		s(r, func(text string) {
			if stream {
				text = "event: message\ndata: " + text + "\n\n"
			}
			_, _ = io.WriteString(w, text)
		})
	}))
}

// everyWay runs a test against a raw server over stdio, and over HTTP with and without a stream.
func everyWay(t *testing.T, mode string, test func(t *testing.T, c mcp.Config)) {
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		test(t, config(t, mode))
	})
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprintf("http stream=%v", stream), func(t *testing.T) {
			t.Parallel()
			test(t, byHand(t, rawServers[mode], stream))
		})
	}
}

func TestAListingThatIsWrong(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"looping cursor": `mcp server "s": list tools: the pages do not end: the cursor "again" comes again`,
		"endless pages":  `mcp server "s": list tools: the pages do not end: there are more than 100`,
		"1001 tools":     `mcp server "s": list tools: it offers more than 1000`,
		"no list":        `mcp server "s": list tools: the answer is no list:`,
		"null list":      `mcp server "s": list tools: the answer is no list: it is null`,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			everyWay(t, mode, func(t *testing.T, c mcp.Config) {
				assert.ErrorContains(t, open(t, c).Start(context.Background()), want)
			})
		})
	}
}

func TestAServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][]string{
		"exits":              {"exit status 7", "no such database"},
		"silent":             {"no answer in time"},
		"silent at list":     {"no answer in time"},
		"only prints":        {"no answer in time", `"Starting the server, please stand by"`},
		"prints and exits":   {"exit status 2", `"Usage: server --port"`},
		"prints without end": {`"a log line of a server that does not know where logs go"`},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := config(t, mode)
			if strings.HasPrefix(mode, "silent") || mode == "only prints" {
				c.StartTimeout = time.Second
			}
			err := open(t, c).Start(context.Background())
			for ; mode == "only prints" && !strings.Contains(fmt.Sprint(err), want[1]) && c.StartTimeout < patience; c.StartTimeout *= 3 {
				err = open(t, c).Start(context.Background()) // it must have begun to print
			}
			require.Error(t, err)
			for _, w := range want {
				assert.ErrorContains(t, err, w)
			}
		})
	}
	s := open(t, mcp.Config{Name: "s", Command: []string{"no-such-program-anywhere"}})
	err := s.Start(context.Background())
	var bad *fault.ConfigError
	require.ErrorAs(t, err, &bad)
	assert.Equal(t, "mcp.s.command", bad.Key)
}

func TestNoiseIsPassedOver(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"strays", "storms"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := start(t, config(t, mode))
			assert.Equal(t, `"heard"`, string(invoke(context.Background(), t, s, "s_echo", `{}`).Value))
			s = start(t, byHand(t, rawServers[mode], true))
			assert.Equal(t, `"heard"`, string(invoke(context.Background(), t, s, "s_echo", `{}`).Value))
		})
	}
	for _, mode := range []string{"prints", "batches"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := start(t, config(t, mode))
			assert.Equal(t, `"heard"`, string(invoke(context.Background(), t, s, "s_echo", `{}`).Value))
		})
	}
}

func TestAServerThatAsksForAModel(t *testing.T) {
	t.Parallel()
	for _, c := range []mcp.Config{config(t, "asks"), byHand(t, rawServers["asks"], true)} {
		log, read := logged()
		c.Log = log
		s := start(t, c)
		for range 2 {
			r := invoke(context.Background(), t, s, "s_echo", `{}`)
			assert.Equal(t, tool.ToolError, r.Code)
			assert.Contains(t, r.Failure.Message, "I cannot think without a model (code -32000)")
			assert.Contains(t, r.Failure.Message, "before that it asked for")
		}
		assert.Equal(t, 1, strings.Count(read(), "asks for what it is not offered"))
	}
}

func TestManyToolsAndOnesThatChange(t *testing.T) {
	t.Parallel()
	everyWay(t, "500 tools", func(t *testing.T, c mcp.Config) {
		defs, err := open(t, c).Tools(context.Background())
		require.NoError(t, err)
		assert.Len(t, defs, 500)
	})
	s := open(t, config(t, "changes"))
	first := def(t, s, "s_a")
	assert.NotEqual(t, first.ContractHash(), def(t, s, "s_a").ContractHash())
}

func TestAServerThatTellsThatItHasChanged(t *testing.T) {
	t.Parallel()
	s := start(t, config(t, "announces"))
	assert.True(t, s.Changed().IsZero())
	before := time.Now()
	assert.Equal(t, tool.OK, invoke(context.Background(), t, s, "s_echo", `{}`).Code)
	assert.False(t, s.Changed().Before(before))
}

func TestAnAnswerThatIsTooLarge(t *testing.T) {
	t.Parallel()
	everyWay(t, "large", func(t *testing.T, c mcp.Config) {
		s := start(t, c)
		texts := []string{""}
		if c.URL == "" {
			texts = append(texts, "id last")
		}
		for _, text := range texts {
			r := invoke(context.Background(), t, s, "s_echo", fmt.Sprintf(`{"text":%q}`, text))
			assert.Equal(t, tool.ToolError, r.Code)
			assert.Contains(t, r.Failure.Message, "larger than 16 MiB")
			assert.Contains(t, r.Failure.Message, "the tool has run")
			assert.Equal(t, `"small"`, string(invoke(context.Background(), t, s, "s_echo", `{"text":"small"}`).Value))
		}
	})
}

func TestAnAnswerThatIsNull(t *testing.T) {
	t.Parallel()
	everyWay(t, "null", func(t *testing.T, c mcp.Config) {
		r := invoke(context.Background(), t, start(t, c), "s_echo", `{}`)
		assert.Equal(t, tool.ToolError, r.Code)
		assert.Contains(t, r.Failure.Message, "the answer cannot be read: it is null, where an object has to stand; the tool has run")
	})
}

func TestACallWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	c := config(t, "silent at call")
	c.CallTimeout = 300 * time.Millisecond
	s := start(t, c)
	r := invoke(context.Background(), t, s, "s_echo", `{}`)
	assert.Equal(t, tool.EffectUnknown, r.Code)
	assert.Contains(t, r.Failure.Message, "no answer in 300ms")
	c.Risk = map[string]tool.Risk{"echo": tool.Read}
	r = invoke(context.Background(), t, start(t, c), "s_echo", `{}`)
	assert.Equal(t, tool.EffectUnknown, r.Code, "the time is over, so it is not tried again")
}

func TestAProgramThatDiesAtEachCall(t *testing.T) {
	t.Parallel()
	c := config(t, "dies at calls")
	file := scratch(t)
	c.Env["MCP_TEST_FILE"] = file
	count := func(what string) int {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.Count(string(data), what+"\n")
	}
	s := open(t, c)
	const callers = 10
	errs := make(chan error, callers)
	for range callers {
		go func() { errs <- s.Start(context.Background()) }()
	}
	for range callers {
		require.NoError(t, <-errs)
	}
	assert.Equal(t, 1, count("started"), "all share one program")
	r := invoke(context.Background(), t, s, "s_echo", `{}`)
	assert.Equal(t, tool.EffectUnknown, r.Code)
	assert.Contains(t, r.Failure.Message, "exit status 9")
	assert.Equal(t, 1, count("called"), "what may have had its effect is not called again")

	c.Idempotent = []string{"echo"}
	s = start(t, c)
	before := count("started")
	assert.Equal(t, tool.EffectUnknown, invoke(context.Background(), t, s, "s_echo", `{}`).Code, "its next call has another key")
	assert.Equal(t, 4, count("called"))
	assert.Equal(t, before+2, count("started"))

	c.Idempotent, c.Risk = nil, map[string]tool.Risk{"echo": tool.Read}
	s = start(t, c)
	assert.Equal(t, tool.ToolError, invoke(context.Background(), t, s, "s_echo", `{}`).Code)
	assert.Equal(t, 7, count("called"))
}

// A call whose worker was lost is not said not to have run because its server is gone now.
func TestALaterAttemptOfACall(t *testing.T) {
	t.Parallel()
	for attempt, want := range map[int]tool.Code{1: tool.ToolError, 2: tool.EffectUnknown} {
		c := config(t, "dies at calls")
		c.Env["MCP_TEST_FILE"], c.Idempotent = scratch(t), []string{"echo"}
		s := start(t, c)
		echo := def(t, s, "s_echo")
		require.NoError(t, s.Close())
		r := echo.Invoke(context.Background(), &tool.Context{Attempt: attempt}, json.RawMessage(`{}`))
		assert.Equal(t, want, r.Code)
		assert.Equal(t, attempt > 1, strings.Contains(r.Failure.Message, "an attempt before may have had its effect"), r.Failure.Message)
	}
}

func TestAProgramThatStopsReading(t *testing.T) {
	t.Parallel()
	s := start(t, config(t, "stops reading"))
	echo := def(t, s, "s_echo")
	// The first call stops it, the second fills the pipe, and the third waits for the second.
	for _, size := range []int{1, 4 << 20, 1} {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(300*time.Millisecond, cancel)
		r := echo.Invoke(ctx, nil, json.RawMessage(`{"text":"`+strings.Repeat("x", size)+`"}`))
		assert.Equal(t, tool.Aborted, r.Code)
	}
}

func TestTheNewestProtocol(t *testing.T) {
	t.Parallel()
	everyWay(t, "newest protocol", func(t *testing.T, c mcp.Config) {
		s := start(t, c)
		require.NoError(t, s.Start(context.Background()))
		r := invoke(context.Background(), t, s, "s_echo", `{}`)
		assert.Equal(t, tool.ToolError, r.Code)
		assert.Contains(t, r.Failure.Message, "it asks for elicitation/create before it runs the tool")
	})
}
