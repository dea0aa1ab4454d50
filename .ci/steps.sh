# The steps of .ci/run, which sources this file. Each is a function that fails by its status, in a subshell with
# `set -euo pipefail`; $root, $tmp, $cache and $long are set.

modules=(. devserver .ci/tools .ci/browser)

# need installs a program by the name of its Debian package, if it is missing.
need() {
  command -v "$1" >/dev/null && return
  local sudo=()
  ((EUID == 0)) || sudo=(sudo -n)
  echo "installing $2 for $1"
  [[ -e $tmp/updated ]] || "${sudo[@]}" apt-get update -qq
  touch "$tmp/updated"
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -qq -y --no-install-recommends "$2" >/dev/null
  command -v "$1" >/dev/null
}

step_machine() {
  local tool
  for tool in go git cc; do
    command -v "$tool" >/dev/null || { echo "error: $tool is not on PATH" >&2; return 1; }
  done
  # The referees of shell matching compare with what these really do.
  need bash bash
  need dash dash
  need find findutils
  need setsid util-linux
  # A browser, for what people see on the workflow page of the Temporal UI.
  need chromium chromium
  # What the MCP servers that people use run on.
  need node nodejs
  need npm npm
  go version
  git --version
  cc --version | head -n 1
  printf '%d cores\n' "$(nproc)"
  # The race detector needs cgo.
  [[ $(go env CGO_ENABLED) == 1 ]] || { echo "error: cgo is off; the race detector needs it" >&2; return 1; }
}

step_format() {
  local bad
  bad=$(git ls-files -co --exclude-standard -- '*.go' | while read -r f; do [[ -e $f ]] && printf '%s\0' "$f"; done | xargs -0 gofmt -s -l)
  [[ -z $bad ]] || { printf 'gofmt -s -w %s\n' $bad; return 1; }
}

step_modules() {
  local m rc=0
  for m in "${modules[@]}"; do
    echo "$m"
    go -C "$m" mod tidy -diff || rc=1
  done
  return $rc
}

step_build() { go build ./...; }

# The tests of later steps run with -vet=off: with the race detector, go test would judge every dependency anew.
step_vet() { go vet ./...; }

# tools prints the folder of the analyzers, which are built once for their versions and this Go.
tools() {
  local key dir
  key=$({ go version; cat .ci/tools/go.mod .ci/tools/go.sum; } | sha256sum | cut -c1-16)
  dir=$cache/tools-$key
  if [[ ! -e $dir/complete ]]; then
    GOFLAGS="$(go env GOFLAGS) -mod=readonly" GOBIN=$dir go -C .ci/tools install tool >&2
    touch "$dir/complete"
  fi
  echo "$dir"
}

step_tools() { ls -I complete "$(tools)"; }

step_lint() {
  local bin rc=0
  bin=$(tools)
  "$bin/staticcheck" ./... || rc=1
  # errcheck.txt lists errors that may be dropped: of closing what was read, removing what is left over, printing, and
  # writing to a buffer that tells at its Flush.
  "$bin/errcheck" -ignoretests -exclude .ci/errcheck.txt ./... || rc=1
  # Errors are told apart by type, and may be wrapped. That they carry %w is each package's choice. A line that means the
  # outermost error alone says so: //errorlint:ignore and why.
  local finding file line
  while IFS= read -r finding; do
    IFS=: read -r file line _ <<<"$finding"
    if [[ -f $file ]] && sed -n "${line}p" "$file" | grep -qE '//errorlint:ignore [a-z]'; then continue; fi
    echo "$finding"
    rc=1
  done < <("$bin/go-errorlint" -errorf=false -test=false ./... 2>&1)
  return $rc
}

step_determinism() { "$(tools)/workflowcheck" -config .ci/workflowcheck.yaml ./workflows; }

step_layout() { go test -vet=off -count=1 ./internal/layout; }

step_server() { go run .ci/server.go; }

# cli prints the path of the real temporal command, built once.
cli_version=v1.5.1
cli() {
  local dir
  dir=$cache/cli-$cli_version-$(go env GOVERSION)
  if [[ ! -x $dir/temporal ]]; then
    (cd "$tmp" && GOBIN=$tmp/cli go install "github.com/temporalio/cli/cmd/temporal@$cli_version") >&2
    mkdir -p "$dir"
    # First beside it, then in one go: what is there is whole.
    cp "$tmp/cli/temporal" "$dir/temporal.$$"
    mv "$dir/temporal.$$" "$dir/temporal"
  fi
  echo "$dir/temporal"
}

# mcp_servers prints the folder of the MCP servers from npm, installed once for a lock file and this node. None of their
# packages runs anything while it is installed.
mcp_servers() {
  local key dir
  need node nodejs >&2
  need npm npm >&2
  key=$({ node --version; cat .ci/mcp/package.json .ci/mcp/package-lock.json; } | sha256sum | cut -c1-16)
  dir=$cache/mcp-$key
  if [[ ! -e $dir ]]; then
    mkdir -p "$tmp/mcp" "$cache"
    cp .ci/mcp/package.json .ci/mcp/package-lock.json "$tmp/mcp/"
    npm ci --prefix "$tmp/mcp" --ignore-scripts --no-audit --no-fund --no-update-notifier >&2
    # First beside it, then in one go: what is there is whole.
    rm -rf "$dir.$$"
    cp -R "$tmp/mcp" "$dir.$$"
    mv -T "$dir.$$" "$dir"
  fi
  echo "$dir"
}

# browser prints the path of the program that looks at a page with Chromium.
browser() {
  need chromium chromium >&2
  go -C .ci/browser build -o "$tmp/browser" . >&2
  echo "$tmp/browser"
}

step_cli() {
  local bin temporal
  temporal=$(cli)
  "$temporal" --version
  go version -m "$temporal" | grep -P '^\tmod\t'
  ls "$(mcp_servers)/node_modules/@modelcontextprotocol"
  bin=$(tools)
  go -C .ci/browser vet ./...
  (cd .ci/browser && "$bin/staticcheck" ./... && "$bin/errcheck" -ignoretests -exclude ../errcheck.txt ./...)
  browser
  go -C .ci/browser test -count=1 -timeout 10m ./...
}

# others lists the packages that are not the end-to-end suite.
others() { go list ./... | grep -vE '/internal/(e2e|layout)(/|$)'; }

step_tests() {
  ASSENT_MCP_SERVERS=$(mcp_servers)
  export ASSENT_MCP_SERVERS
  # The two longest come first, so that at the end no core waits for one of them.
  # shellcheck disable=SC2046
  go test -vet=off -race -shuffle=on -timeout 20m -p 2 ./cmd/starter ./worktree/git $(others)
}

step_nested() {
  local bin
  bin=$(tools)
  go -C devserver vet ./...
  (cd devserver && "$bin/errcheck" -ignoretests -exclude ../.ci/errcheck.txt ./...)
  go -C devserver test -vet=off -shuffle=on -timeout 15m ./...
}

# stock gives the tests what operators have: the temporal command, a browser and MCP servers.
stock() {
  ASSENT_CLI=$(cli)
  ASSENT_BROWSER=$(browser)
  ASSENT_MCP_SERVERS=$(mcp_servers)
  export ASSENT_CLI ASSENT_BROWSER ASSENT_MCP_SERVERS
}

step_e2e() {
  stock
  go test -vet=off -race -shuffle=on -timeout 30m -p 1 ./internal/e2e/...
}

# fuzz runs every target of both modules for so many inputs. A count and not a time: when a time is over while an input
# runs, go test now and then fails with "context deadline exceeded" although nothing was found. A package is built once for
# all its targets, with the given flags, because linking takes longer than most of them.
fuzz() {
  local inputs=$1 rc=0 n=0 m dir name built='' began
  shift
  for m in . devserver; do
    while IFS=: read -r dir name; do
      n=$((n + 1))
      began=$SECONDS
      if [[ $built != "$m/$dir" ]]; then
        built=$m/$dir
        rm -f "$tmp/fuzz.test"
        go -C "$m" test -vet=off -c "$@" -o "$tmp/fuzz.test" "$dir" || { rc=1; continue; }
      fi
      [[ -e $tmp/fuzz.test ]] || continue
      (cd "$m/$dir" && "$tmp/fuzz.test" -test.run='^$' -test.fuzz="^$name\$" -test.fuzztime="${inputs}x" -test.parallel="$(nproc)" \
        -test.fuzzcachedir="$(go env GOCACHE)/fuzz/assent/$m/$dir") >"$tmp/fuzz" 2>&1 || {
        rc=1
        cat "$tmp/fuzz"
        echo "to repeat it: go -C $m test -run='^\$' -fuzz='^$name\$' -fuzztime=${inputs}x $dir"
      }
      if grep -q 'without coverage guidance' "$tmp/fuzz"; then
        rc=1
        echo "error: $dir is built without instruments"
      fi
      echo "$m $dir $name: $(tail -n 1 "$tmp/fuzz"), $((SECONDS - began)) s"
    done < <(targets "$m")
  done
  ((n > 0)) || { echo "error: no fuzz target was found" >&2; return 1; }
  return $rc
}

# targets prints dir:name of every fuzz target of a module, those of a package one after the other.
targets() {
  (cd "$1" && git ls-files -co --exclude-standard -- '*_test.go' | { [[ $1 == . ]] && grep -v '^devserver/' || cat; } |
    xargs grep -HoE '^func Fuzz[A-Za-z0-9_]*\(' /dev/null | sed -E 's#^(.*/)?[^/]*:func (Fuzz[A-Za-z0-9_]*)\(#./\1:\2#; s#/:#:#' | sort)
}

# What go test -fuzz has the compiler do to every package, done to our own and to the parsers that they use. The rest comes
# from the cache of the build, and inputs run twice as fast.
step_fuzz() {
  local path flags=()
  for path in github.com/assent-dev/assent mvdan.cc/sh/v3 github.com/goccy/go-yaml; do flags+=("-gcflags=$path/...=-d=libfuzzer"); done
  fuzz 10000 "${flags[@]}"
}

# readme runs what is marked in README.md, in a clone that has nothing but what is committed.
step_readme() {
  local clone=$tmp/clone
  [[ -e README.md ]] || { echo "error: there is no README.md" >&2; return 1; }
  git diff --quiet HEAD -- || echo "note: changes that are not committed are not in the clone"
  # A checkout may belong to another user than the one who runs this.
  printf '[safe]\n\tdirectory = %s\n\tdirectory = %s/.git\n' "$root" "$root" >"$tmp/gitconfig"
  GIT_CONFIG_GLOBAL=$tmp/gitconfig git clone -q "$root" "$clone"
  bash .ci/blocks <"$clone/README.md" >"$tmp/readme.sh"
  grep -q '^# block ' "$tmp/readme.sh" || { echo "error: no block of README.md is marked <!-- ci:run -->" >&2; return 1; }
  # What the demo leaves goes with the clone. A newcomer has no CI, and not what stock gives: those tests are skipped.
  (cd "$clone" && XDG_STATE_HOME=$tmp/state env -u CI bash -euo pipefail "$tmp/readme.sh")
  [[ -z $(git -C "$clone" status --porcelain) ]] || { git -C "$clone" status --short; echo "error: the README's commands left files behind" >&2; return 1; }
}

# The facts of all that a Temporal server is made of take staticcheck ten minutes to gather.
step_long_nested() {
  local bin
  bin=$(tools)
  (cd devserver && "$bin/staticcheck" ./...)
}

step_long_systems() {
  GOOS=darwin CGO_ENABLED=0 go vet ./...
  GOOS=windows CGO_ENABLED=0 go build ./... # the tests of what processes and files do are for Unix
}

step_long_referee() {
  local dirs
  ASSENT_MCP_SERVERS=$(mcp_servers)
  export ASSENT_MCP_SERVERS
  dirs=$(git grep -l ASSENT_LONG -- '*_test.go' | grep -v '^internal/e2e/' | xargs -n 1 dirname | sort -u | sed 's#^#./#')
  [[ -n $dirs ]] || { echo "error: no test reads ASSENT_LONG" >&2; return 1; }
  # shellcheck disable=SC2086
  ASSENT_LONG=1 go test -race -count=1 -timeout 110m -p 1 $dirs
}

step_long_fuzz() { fuzz 100000 -fuzz=.; }

step_long_e2e() {
  stock
  # All of it once with the long storms, whose kills take minutes to be noticed, and often what falls otherwise each time: kills,
  # resets, races and what meets a continuation. The rest says the same at every run.
  ASSENT_LONG=1 go test -race -shuffle=on -count=1 -timeout 115m -p 1 ./internal/e2e/...
  go test -race -shuffle=on -count=5 -timeout 115m -run 'Kill|Storm|Reset|Race|Lost|Dies|Rolling|Survive|Continu' ./internal/e2e
}
