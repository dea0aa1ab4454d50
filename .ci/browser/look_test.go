package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain makes the test binary the program itself, for the test that kills it.
func TestMain(m *testing.M) {
	if os.Getenv("BROWSER_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// site has a page with a dialog and a frame, into which markup got that should not be there.
func site(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	pages := map[string]string{
		"/{$}": `<title>Start</title><p>first</p><p style="display:none">not seen</p>
			<button id="open" onclick="setTimeout(() => document.getElementById('dialog').hidden = false, 300)">open</button>
			<button id="broken" onclick="console.error('it', 'broke'); nothing()">break</button>
			<input id="name" style="display:none"><div id="dialog" hidden><input id="name"><div id="text" contenteditable="true"></div>
			<button id="send" onclick="document.getElementById('said').textContent =
				'said ' + document.querySelector('#dialog input').value + ' ' + document.getElementById('text').textContent">send</button></div>
			<p id="said"></p><iframe id="frame" src="/frame"></iframe>`,
		"/stale": `<p id="p">old</p><script>window.onkeydown = (e) => document.getElementById('p').textContent = 'pressed ' + e.key</script>`,
		"/frame": `<!DOCTYPE html><main><!-- a mark --><p class="x">inside</p><img src="/evil.png" onerror="window.owned = 1"></main>`,
	}
	for path, body := range pages {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte(body))
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func look1(t *testing.T, want int, args ...string) (page, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if got := run(t.Context(), args, &stdout, &stderr); got != want {
		t.Fatalf("exit code %d, want %d\n%s%s", got, want, &stderr, &stdout)
	}
	var p page
	if stdout.Len() > 0 {
		if err := json.Unmarshal(stdout.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
	}
	return p, stderr.String()
}

// Everything by which a test would know that markup got in is reported, and steps do what a person does.
func TestWhatIsOnAPageIsReported(t *testing.T) {
	shot := filepath.Join(t.TempDir(), "page.png")
	p, _ := look1(t, 0, "--frame", "#frame", "--global", "owned", "--screenshot", shot, "--click", "#broken", "--click", "#open",
		"--fill", "#name=alice", "--fill", "div[contenteditable=true]={\"a\":\"b=c\"}", "--click", "#send", "--wait", `said alice {"a":"b=c"}`,
		"--wait", "inside", site(t))
	switch {
	case p.Title != "Start" || !strings.Contains(p.Text, "first") || strings.Contains(p.Text, "not seen"):
		t.Errorf("the page is not what is seen: %+v", p)
	case !p.Global:
		t.Error("a global of the frame was not found")
	case !strings.Contains(strings.Join(p.Requests, " "), "/evil.png"):
		t.Errorf("the frame's image was not asked for: %q", p.Requests)
	case !strings.Contains(strings.Join(p.Errors, "\n"), "broke") || !strings.Contains(strings.Join(p.Errors, "\n"), "nothing is not defined"):
		t.Errorf("errors are missing: %q", p.Errors)
	case p.Frame == nil:
		t.Fatal("there is no frame")
	case len(p.Frame.Comments) != 1 || p.Frame.Comments[0] != " a mark ":
		t.Errorf("comments: %q", p.Frame.Comments)
	}
	tags := map[string]map[string]string{}
	for _, e := range p.Frame.Elements {
		tags[e.Tag] = e.Attributes
	}
	if tags["img"]["onerror"] != "window.owned = 1" || tags["p"]["class"] != "x" || tags["main"] == nil {
		t.Errorf("elements: %v", tags)
	}
	if b, err := os.ReadFile(shot); err != nil || !bytes.HasPrefix(b, []byte("\x89PNG")) {
		t.Errorf("no screenshot: %v", err)
	}
}

// A page that loads something only once is asked again.
func TestAStalePageIsRefreshed(t *testing.T) {
	look1(t, 0, "--refresh", "r", "--wait", "pressed r", site(t)+"/stale")
}

// A step that cannot be taken fails in its time, names itself and shows what was there instead.
func TestAStepThatCannotBeTaken(t *testing.T) {
	for _, step := range [][]string{{"--wait", "never"}, {"--click", "#send"}, {"--fill", "#name=x"}, {"--click", "#missing"}} {
		p, stderr := look1(t, 1, append(step, "--timeout", "3s", site(t))...)
		if !strings.Contains(p.Text, "first") || !strings.HasPrefix(stderr, "error: "+strings.TrimPrefix(step[0], "--")) {
			t.Errorf("%v: %q, %+v", step, stderr, p)
		}
	}
	if _, stderr := look1(t, 1, "--timeout", "20s", "http://127.0.0.1:9"); !strings.Contains(stderr, "error: open ") {
		t.Error(stderr)
	}
}

func TestOnlyThisMachineIsLookedAt(t *testing.T) {
	for _, args := range [][]string{{}, {"http://a", "http://b"}, {"https://127.0.0.1"}, {"http://example.com"}, {"http://127.0.0.1.example.com"},
		{"file:///etc/passwd"}, {"http://[::"}, {"--fill", "no text", "http://127.0.0.1"}, {"--nothing", "http://127.0.0.1"}} {
		look1(t, 2, args...)
	}
}

// The program ends its browser and removes its files, also when it is ended itself.
func TestNothingIsLeft(t *testing.T) {
	for _, sig := range []os.Signal{nil, syscall.SIGTERM} {
		tmp := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		args := []string{"--wait", "first", site(t)}
		if sig != nil {
			args[1] = "never"
		}
		cmd := exec.CommandContext(ctx, os.Args[0], args...)
		cmd.Env = append(os.Environ(), "BROWSER_MAIN=1", "TMPDIR="+tmp)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if sig != nil {
			for len(using(t, tmp)) < 2 && ctx.Err() == nil {
				time.Sleep(20 * time.Millisecond)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Wait(); (err != nil) != (sig != nil) {
			t.Errorf("signal %v: %v", sig, err)
		}
		for len(using(t, tmp)) > 0 && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		if left := using(t, tmp); len(left) > 0 {
			t.Errorf("signal %v: still running: %q", sig, left)
		}
		if files, err := os.ReadDir(tmp); err != nil || len(files) > 0 {
			t.Errorf("signal %v: left behind: %v %v", sig, files, err)
		}
	}
}

// using returns the command lines of processes that name a folder.
func using(t *testing.T, dir string) (lines []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(dir)) {
			lines = append(lines, string(bytes.ReplaceAll(b, []byte{0}, []byte(" "))))
		}
	}
	return lines
}
