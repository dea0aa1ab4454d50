package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/internal/mcptest"
	"github.com/assent-dev/assent/internal/stdioproc"
	"github.com/assent-dev/assent/mcp"
	"github.com/assent-dev/assent/tool"
)

// real is the configuration of a server that is a process of its own.
func real(command []string, url string) mcp.Config {
	none := ""
	return mcp.Config{Name: "s", Command: command, URL: url, Prefix: &none, StartTimeout: patience, CallTimeout: patience}
}

// ways runs a test against the test server as a process, over stdio and over HTTP with both kinds of answers.
func ways(t *testing.T, test func(t *testing.T, c mcp.Config), flags ...string) {
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		test(t, real(mcptest.Command(t, flags...), ""))
	})
	for _, form := range []string{"-json=false", "-json=true"} {
		t.Run("http "+form, func(t *testing.T) {
			t.Parallel()
			test(t, real(nil, mcptest.Serve(t, append(flags, form)...).URL))
		})
	}
}

// value is the result of a call that is fine.
func value(t *testing.T, s *mcp.Server, name string, input any) string {
	t.Helper()
	b, err := json.Marshal(input)
	require.NoError(t, err)
	r := invoke(context.Background(), t, s, name, string(b))
	require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
	var said string
	if json.Unmarshal(r.Value, &said) == nil {
		return said
	}
	return string(r.Value)
}

// failure is that of a call that is not.
func failure(t *testing.T, s *mcp.Server, name string, input any) (tool.Code, string) {
	t.Helper()
	b, err := json.Marshal(input)
	require.NoError(t, err)
	r := invoke(context.Background(), t, s, name, string(b))
	require.NotNil(t, r.Failure)
	return r.Code, r.Failure.Message
}

type in = map[string]any

func TestARealServer(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, c mcp.Config) {
		s := start(t, c)
		assert.Equal(t, "hello", value(t, s, "echo", in{"text": "hello"}))
		assert.JSONEq(t, `{"sum":5}`, value(t, s, "add", in{"a": 2, "b": 3}))
		assert.Equal(t, tool.Destructive, def(t, s, "append").Info().Risk)
		assert.Equal(t, tool.Undeclared, def(t, s, "echo").Info().Risk, "its hint that it only reads is not believed")
		code, why := failure(t, s, "fail", in{})
		assert.Equal(t, tool.ToolError, code)
		assert.Contains(t, why, "it failed as it was told to")
		code, why = failure(t, s, "refuse", in{})
		assert.Equal(t, tool.ToolError, code)
		assert.Contains(t, why, "it was refused by the protocol")
		assert.Contains(t, value(t, s, "audio", in{}), "audio/wav")
		assert.Contains(t, value(t, s, "resource", in{}), "test://text")
		assert.Contains(t, value(t, s, "meta", in{}), "key-1")
		client := value(t, s, "client", in{})
		assert.NotContains(t, client, "sampling")
		assert.NotContains(t, client, "elicitation")
	})
}

func TestARealServerHearsACancellation(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, c mcp.Config) {
		s := start(t, c)
		started, cancelled := scratch(t), scratch(t)
		input, err := json.Marshal(in{"seconds": 1000, "started": started, "cancelled": cancelled})
		require.NoError(t, err)
		slow := def(t, s, "slow")
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan tool.Result, 1)
		go func() { done <- slow.Invoke(ctx, nil, input) }()
		pid := firstLine(t, started)
		cancel()
		assert.Equal(t, tool.Aborted, (<-done).Code)
		waitFor(t, cancelled, "cancelled")
		assert.Equal(t, pid, value(t, s, "pid", in{}), "the connection stays")
	})
}

// firstLine waits for the first line of a file.
func firstLine(t *testing.T, file string) (line string) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		var whole bool
		line, _, whole = strings.Cut(string(text), "\n")
		return err == nil && whole
	}, patience, time.Millisecond)
	return line
}

// TestARealServerIsKilled kills the process in the middle of a call, and has it crash by itself.
func TestARealServerIsKilled(t *testing.T) {
	t.Parallel()
	started := scratch(t)
	s := start(t, real(mcptest.Command(t, "-children", filepath.Join(t.TempDir(), "pids")), ""))
	slow := def(t, s, "slow")
	input, err := json.Marshal(in{"seconds": 1000, "started": started})
	require.NoError(t, err)
	done := make(chan tool.Result, 1)
	go func() { done <- slow.Invoke(context.Background(), nil, input) }()
	pid := firstLine(t, started)
	n, err := strconv.Atoi(pid)
	require.NoError(t, err)
	p, err := os.FindProcess(n)
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	r := <-done
	assert.Equal(t, tool.EffectUnknown, r.Code)
	require.NotNil(t, r.Failure)
	assert.Contains(t, r.Failure.Message, "killed")
	assert.NotEqual(t, pid, value(t, s, "pid", in{}), "the next call has a new process")

	file := scratch(t)
	code, why := failure(t, s, "crash", in{"file": file})
	assert.Equal(t, tool.EffectUnknown, code)
	assert.Contains(t, why, "exit status 7")
	assert.Contains(t, why, "this server crashes because it was told to")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "crashed\n", string(text), "it was called once")
	assert.Equal(t, "again", value(t, s, "echo", in{"text": "again"}))
}

// A program that works in the tree of an agent ends when the agent does, in the middle of a call and with its children.
func TestAProgramLeavesItsDirectory(t *testing.T) {
	t.Parallel()
	c := real(mcptest.Command(t), "")
	c.PerDir = true
	s := start(t, c)
	dir, started := t.TempDir(), scratch(t)
	slow := def(t, s, "slow")
	input, err := json.Marshal(in{"seconds": 1000, "started": started})
	require.NoError(t, err)
	done := make(chan tool.Result, 1)
	go func() { done <- slow.Invoke(context.Background(), &tool.Context{Dir: dir}, input) }()
	pid := firstLine(t, started)
	require.NoError(t, s.Leave(context.Background(), t.TempDir()), "it knows nothing of this one")
	require.NoError(t, s.Leave(context.Background(), dir))
	require.NoFileExists(t, "/proc/"+pid+"/stat")
	r := <-done
	require.Equal(t, tool.EffectUnknown, r.Code, "%+v", r.Failure)
	require.NoError(t, s.Leave(context.Background(), dir))
	r = def(t, s, "pid").Invoke(context.Background(), &tool.Context{Dir: dir}, json.RawMessage(`{}`))
	require.Equal(t, tool.OK, r.Code, "whoever comes back has another one")
}

// A server over HTTP that is killed in the middle of a call. What only reads is tried again, and nobody says that it did not run.
func TestARealServerOverHTTPIsKilled(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"-json=false", "-json=true"} {
		for risk, want := range map[tool.Risk]tool.Code{tool.Undeclared: tool.EffectUnknown, tool.Read: tool.ToolError} {
			h := mcptest.Serve(t, form)
			c := real(nil, h.URL)
			c.Risk = map[string]tool.Risk{"slow": risk}
			s := start(t, c)
			slow, started := def(t, s, "slow"), scratch(t)
			input, err := json.Marshal(in{"seconds": 1000, "started": started})
			require.NoError(t, err)
			done := make(chan tool.Result, 1)
			go func() { done <- slow.Invoke(context.Background(), nil, input) }()
			firstLine(t, started)
			p, err := os.FindProcess(h.Pid())
			require.NoError(t, err)
			require.NoError(t, p.Kill())
			r := <-done
			require.Equal(t, want, r.Code, "%+v", r.Failure)
			assert.NotContains(t, r.Failure.Message, "the tool did not run")
			if risk == tool.Undeclared {
				assert.Contains(t, r.Failure.Message, "the connection broke before it answered")
			}
			h.Restart()
			assert.Equal(t, "on", value(t, s, "echo", in{"text": "on"}))
			effects, err := os.ReadFile(started)
			require.NoError(t, err)
			assert.Equal(t, 1, strings.Count(string(effects), "\n"))
		}
	}
}

func TestARealServerOverHTTPIsRestarted(t *testing.T) {
	t.Parallel()
	server := mcptest.Serve(t)
	s := start(t, real(nil, server.URL))
	before := value(t, s, "pid", in{})
	server.Restart()
	after := value(t, s, "pid", in{})
	assert.NotEqual(t, before, after)
	assert.Equal(t, strconv.Itoa(server.Pid()), after)

	echo := def(t, s, "echo")
	server.Stop()
	r := echo.Invoke(context.Background(), nil, json.RawMessage(`{"text":"x"}`))
	assert.Equal(t, tool.ToolError, r.Code, "nothing that was sent can have reached it")
	assert.Contains(t, r.Failure.Message, "did not run")
	server.Restart()
	assert.Equal(t, "x", value(t, s, "echo", in{"text": "x"}))
}

func TestFiveHundredTools(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, c mcp.Config) {
		s := start(t, c)
		assert.Equal(t, "extra 499", value(t, s, "extra_0499", in{}))
		defs, err := s.Tools(context.Background())
		require.NoError(t, err)
		assert.Greater(t, len(defs), 500)
		assert.Empty(t, s.Refused())
	}, "-tools", "500", "-page", "7")
}

func TestAResultOfFiftyMegabytes(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, c mcp.Config) {
		s := start(t, c)
		code, why := failure(t, s, "big", in{"bytes": 50 << 20})
		assert.NotEqual(t, tool.OK, code)
		assert.Contains(t, why, "16 MiB", "it says what is allowed")
		assert.Less(t, len(why), 2000)
		assert.Equal(t, "on", value(t, s, "echo", in{"text": "on"}))
	})
}

func TestHostileServers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	begin := func(t *testing.T, mode string, start, call time.Duration) (*mcp.Server, error) {
		c := real(mcptest.Command(t, "-hostile", mode), "")
		c.StartTimeout, c.CallTimeout = start, call
		s := open(t, c)
		return s, s.Start(ctx)
	}
	for mode, says := range map[string]string{
		"garbage":     "Welcome to the server that does not know",
		"exit":        "this server has no license",
		"silent":      "no answer in time",
		"silent-list": "no answer in time",
		"loop":        "again",
		"endless":     "pages",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			timeout := patience
			switch mode {
			case "silent", "silent-list", "garbage":
				timeout = time.Second
			}
			_, err := begin(t, mode, timeout, patience)
			for ; mode == "garbage" && !strings.Contains(fmt.Sprint(err), says) && timeout < patience; timeout *= 3 {
				_, err = begin(t, mode, timeout, patience) // it must have begun to talk
			}
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, `"s"`, "it names the server")
		})
	}
	for mode, check := range map[string]func(t *testing.T, s *mcp.Server){
		"noise": func(t *testing.T, s *mcp.Server) { assert.Equal(t, "on", value(t, s, "echo", in{"text": "on"})) },
		"twice": func(t *testing.T, s *mcp.Server) {
			assert.Equal(t, "one", value(t, s, "echo", in{"text": "one"}))
			assert.Equal(t, "two", value(t, s, "echo", in{"text": "two"}))
		},
		"sampling":    asksAClient("sampling"),
		"elicitation": asksAClient("elicitation"),
		"schemas": func(t *testing.T, s *mcp.Server) {
			assert.Equal(t, "on", value(t, s, "echo", in{"text": "on"}))
			assert.Equal(t, []string{"array", "away", "large", "null", "word"}, refusedNames(s))
		},
		"names": func(t *testing.T, s *mcp.Server) {
			defs, err := s.Tools(ctx)
			require.NoError(t, err)
			assert.Empty(t, defs, "echo stands twice")
			assert.Len(t, s.Refused(), 6)
		},
		"changing": func(t *testing.T, s *mcp.Server) {
			first, second := def(t, s, "echo").Info().Description, def(t, s, "echo").Info().Description
			assert.NotEqual(t, first, second)
		},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s, err := begin(t, mode, patience, patience)
			require.NoError(t, err)
			check(t, s)
		})
	}
	t.Run("silent-call", func(t *testing.T) {
		t.Parallel()
		s, err := begin(t, "silent-call", patience, time.Second)
		require.NoError(t, err)
		echo := def(t, s, "echo")
		r := echo.Invoke(ctx, nil, json.RawMessage(`{}`))
		assert.Contains(t, []tool.Code{tool.EffectUnknown, tool.ToolTimeout}, r.Code)
	})
}

// asksAClient is for a server that wants something of us in the middle of a call: it hears no, and the result says so.
func asksAClient(what string) func(t *testing.T, s *mcp.Server) {
	return func(t *testing.T, s *mcp.Server) {
		code, why := failure(t, s, "echo", in{"text": "x"})
		assert.Equal(t, tool.ToolError, code)
		assert.Contains(t, why, "the client said")
		assert.Contains(t, why, what)
	}
}

func refusedNames(s *mcp.Server) []string {
	var names []string
	for _, r := range s.Refused() {
		names = append(names, r.Name)
	}
	return names
}

func TestExamplesOfTheSDK(t *testing.T) {
	t.Parallel()
	t.Run("memory over stdio", func(t *testing.T) {
		t.Parallel()
		s := start(t, real([]string{mcptest.SDKExample(t, "server/memory"), "-memory", scratch(t)}, ""))
		value(t, s, "create_entities", in{"entities": []any{in{"name": "Ada", "entityType": "person", "observations": []string{"counts"}}}})
		assert.Contains(t, value(t, s, "read_graph", in{}), "Ada")
		code, _ := failure(t, s, "add_observations", in{"observations": []any{in{"entityName": "Nobody", "contents": []string{"x"}, "observations": []string{}}}})
		assert.NotEqual(t, tool.OK, code)
	})
	t.Run("everything over stdio", func(t *testing.T) {
		t.Parallel()
		s := start(t, real([]string{mcptest.SDKExample(t, "server/everything")}, ""))
		assert.Equal(t, "Hi Ada", value(t, s, "greet", in{"name": "Ada"}))
		assert.Contains(t, refusedNames(s), "greet (structured)")
		code, why := failure(t, s, "sample", in{})
		assert.Equal(t, tool.ToolError, code)
		assert.Contains(t, why, "sampling")
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		program := mcptest.SDKExample(t, "http")
		server := mcptest.ServeProgram(t, "/", func(port string) stdioproc.Config {
			return stdioproc.Config{Command: []string{program, "-host", "127.0.0.1", "-port", port, "server"}}
		})
		s := start(t, real(nil, server.URL))
		assert.Contains(t, value(t, s, "cityTime", in{"city": "sf"}), "San Francisco")
		code, why := failure(t, s, "cityTime", in{"city": "atlantis"})
		assert.Equal(t, tool.ToolError, code)
		assert.Contains(t, why, "unknown city: atlantis")
		server.Restart()
		assert.Contains(t, value(t, s, "cityTime", in{"city": "nyc"}), "New York")
	})
}

func TestFilesystemFromNPM(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	c := real(mcptest.NPM(t, "mcp-server-filesystem", mcp.Dir), "")
	c.PerDir, c.Allow = true, []string{"read_text_file", "write_file", "list_allowed_directories"}
	c.Risk = map[string]tool.Risk{"read_text_file": tool.Read, "write_file": tool.Read}
	s := start(t, c)
	assert.Equal(t, tool.Read, def(t, s, "read_text_file").Info().Risk)
	assert.Equal(t, tool.Destructive, def(t, s, "write_file").Info().Risk)
	at := func(name string, input in) tool.Result {
		b, err := json.Marshal(input)
		require.NoError(t, err)
		return def(t, s, name).Invoke(context.Background(), &tool.Context{Dir: dir}, b)
	}
	r := at("write_file", in{"path": filepath.Join(dir, "a.txt"), "content": "written by a tool"})
	require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
	text, err := os.ReadFile(filepath.Join(dir, "a.txt"))
	require.NoError(t, err)
	assert.Equal(t, "written by a tool", string(text))
	r = at("read_text_file", in{"path": "a.txt"})
	require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
	assert.Contains(t, string(r.Value), "written by a tool")
	r = at("read_text_file", in{"path": "/etc/passwd"})
	assert.Equal(t, tool.ToolError, r.Code)
	assert.Contains(t, r.Failure.Message, "Access denied")
	r = at("list_allowed_directories", in{})
	assert.Contains(t, string(r.Value), filepath.Base(dir))
}

func TestEverythingFromNPM(t *testing.T) {
	t.Parallel()
	talk := func(t *testing.T, s *mcp.Server) {
		assert.Equal(t, "Echo: hello", value(t, s, "echo", in{"message": "hello"}))
		assert.Contains(t, value(t, s, "get-sum", in{"a": 2, "b": 3}), "5")
		assert.Contains(t, value(t, s, "get-structured-content", in{"location": "Chicago"}), `"temperature"`)
		r := invoke(context.Background(), t, s, "get-tiny-image", `{}`)
		require.Equal(t, tool.OK, r.Code, "%+v", r.Failure)
		assert.Len(t, r.Images, 1)
		code, _ := failure(t, s, "get-sum", in{"a": "two"})
		assert.NotEqual(t, tool.OK, code)
	}
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS != "linux" {
			t.Skip("its process is found by its environment, in /proc")
		}
		// What it is told is kept in a file, so that it is known when a call has begun; and its tree has more than one process.
		heard := scratch(t)
		c := real(append([]string{"sh", "-c", `tee "$0" | "$@"`, heard}, mcptest.NPM(t, "mcp-server-everything", "stdio")...), "")
		mark := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
		c.Env = map[string]string{"MCPTEST_MARK": mark}
		s := start(t, c)
		talk(t, s)

		long := def(t, s, "trigger-long-running-operation")
		has := func(what string) {
			require.Eventually(t, func() bool {
				text, err := os.ReadFile(heard)
				return err == nil && strings.Contains(string(text), what)
			}, patience, time.Millisecond)
		}
		done := make(chan tool.Result, 1)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { done <- long.Invoke(ctx, nil, json.RawMessage(`{"duration":1001,"steps":1001}`)) }()
		has("1001")
		cancel()
		assert.Equal(t, tool.Aborted, (<-done).Code)
		has("notifications/cancelled")

		go func() {
			done <- long.Invoke(context.Background(), nil, json.RawMessage(`{"duration":1002,"steps":1002}`))
		}()
		has("1002")
		pids := marked(t, "MCPTEST_MARK="+mark)
		require.NotEmpty(t, pids)
		for _, pid := range pids {
			p, err := os.FindProcess(pid)
			require.NoError(t, err)
			_ = p.Kill() // it may have ended with its parent
		}
		assert.Equal(t, tool.EffectUnknown, (<-done).Code)
		assert.Equal(t, "Echo: again", value(t, s, "echo", in{"message": "again"}))
		require.NoError(t, s.Close())
		assert.Empty(t, marked(t, "MCPTEST_MARK="+mark))
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		command := mcptest.NPM(t, "mcp-server-everything", "streamableHttp")
		server := mcptest.ServeProgram(t, "/mcp", func(port string) stdioproc.Config {
			return stdioproc.Config{Command: command, Env: map[string]string{"PORT": port}}
		})
		s := start(t, real(nil, server.URL))
		talk(t, s)
		server.Restart()
		assert.Equal(t, "Echo: again", value(t, s, "echo", in{"message": "again"}))
	})
}

// marked are the living processes with a variable in their environment.
func marked(t *testing.T, entry string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains("\x00"+string(text), "\x00"+entry+"\x00") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}
