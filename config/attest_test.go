package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/assent-dev/assent/config"
	"github.com/assent-dev/assent/tool"
)

var (
	hashA  = strings.Repeat("a", 64)
	hashB  = strings.Repeat("1", 64)
	pinned = tool.Attestation{ToolsetHash: hashA, AuthorityHash: hashB, Tools: map[string]tool.Attested{
		"x": {Contract: hashA, Authority: hashB}, "true": {Contract: hashB, Authority: hashA}}}
)

const oldBlock = `
      attestation:
        toolsetHash: A
        authorityHash: A
        tools:
          x: {contract: A, authority: A}
`

// The attestation goes where it belongs, and all else stays as it is written.
func TestWithAttestation(t *testing.T) {
	block := func(indent string) string {
		return indent + "attestation:\n" + indent + "  toolsetHash: \"A\"\n" + indent + "  authorityHash: \"B\"\n" + indent + "  tools:\n" +
			indent + "    \"true\": {contract: \"B\", authority: \"A\"}\n" + indent + "    \"x\": {contract: \"A\", authority: \"B\"}\n"
	}
	const flow = `attestation: {toolsetHash: "A", authorityHash: "B", tools: {"true": {contract: "B", authority: "A"}, "x": {contract: "A", authority: "B"}}}`
	for name, c := range map[string]struct{ before, after string }{
		"no permissions": {"profiles:\n  p:\n    # mine\n    tools: [x] # all\n  q: {}\n",
			"profiles:\n  p:\n    # mine\n    tools: [x] # all\n    permissions:\n" + block("      ") + "  q: {}\n"},
		"list below": {"profiles:\n  p:\n    tools:\n    - x\n    - y\n\n# about q\n  q: {}\n",
			"profiles:\n  p:\n    tools:\n    - x\n    - y\n    permissions:\n" + block("      ") + "\n# about q\n  q: {}\n"},
		"no line end": {"profiles:\n  p:\n    tools: [x]", "profiles:\n  p:\n    tools: [x]\n    permissions:\n" + block("      ")},
		"carriage returns": {"profiles:\r\n  p:\r\n    tools: [x]\r\n",
			strings.ReplaceAll("profiles:\n  p:\n    tools: [x]\n    permissions:\n"+block("      "), "\n", "\r\n")},
		"byte order mark": {"\ufeffprofiles: {p: {}}\n", "\ufeffprofiles: {p: {permissions: {" + flow + "}}}\n"},
		"permissions": {"profiles:\n    p:\n        permissions:\n            preset: strict # safe\n            # last\n    q: {}\n",
			"profiles:\n    p:\n        permissions:\n            preset: strict # safe\n" + block("            ") + "            # last\n    q: {}\n"},
		"a text that looks like a key": {"profiles:\n  p:\n    permissions:\n      preset: strict\n    system: |\n      attestation:\n        # no\n\n      more\nworker: {dir: .}\n",
			"profiles:\n  p:\n    permissions:\n      preset: strict\n" + block("      ") + "    system: |\n      attestation:\n        # no\n\n      more\nworker: {dir: .}\n"},
		"permissions in braces": {"profiles:\n  p:\n    permissions: {preset: strict} # é safe\n    tools: [x]\n",
			"profiles:\n  p:\n    permissions: {preset: strict, " + flow + "} # é safe\n    tools: [x]\n"},
		"empty braces":       {"profiles:\n  p:\n    permissions: {}\n", "profiles:\n  p:\n    permissions: {" + flow + "}\n"},
		"profile in braces":  {"profiles:\n  p: {system: 'é}', tools: [x]}\n", "profiles:\n  p: {system: 'é}', tools: [x], permissions: {" + flow + "}}\n"},
		"braces over lines":  {"profiles:\n  p: {\n    tools: [x]\n    }\n", "profiles:\n  p: {\n    tools: [x]\n    , permissions: {" + flow + "}}\n"},
		"an old one":         {"profiles:\n  p:\n    permissions:\n      preset: open" + oldBlock + "      # after\n      guards: [g]\n", "profiles:\n  p:\n    permissions:\n      preset: open\n" + block("      ") + "      # after\n      guards: [g]\n"},
		"an old one at last": {"profiles:\n  p:\n    permissions:" + oldBlock + "\n# end\n", "profiles:\n  p:\n    permissions:\n" + block("      ") + "\n# end\n"},
		"an old one in braces": {"profiles:\n  p:\n    permissions: {attestation: {toolsetHash: A,\n      authorityHash: A, tools: {}}, preset: open} # x\n",
			"profiles:\n  p:\n    permissions: {" + flow + ", preset: open} # x\n"},
		"another profile": {"profiles:\n  q:\n    permissions:" + oldBlock + "  p:\n    tools: []\n", "profiles:\n  q:\n    permissions:" + oldBlock + "  p:\n    tools: []\n    permissions:\n" + block("      ")},
		"deep":            {"profiles:\n  p:\n    tools: [x]\n    limits:\n      maxTurns: 5\n\n\nmodels: {}\n", "profiles:\n  p:\n    tools: [x]\n    limits:\n      maxTurns: 5\n    permissions:\n" + block("      ") + "\n\nmodels: {}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			hashes := strings.NewReplacer(": \"A\"", ": \""+hashA+"\"", ": \"B\"", ": \""+hashB+"\"", ": A", ": "+hashA)
			before := hashes.Replace(c.before)
			_, err := config.Parse("a.yaml", []byte(before))
			require.NoError(t, err)
			got, err := config.WithAttestation([]byte(before), "p", pinned)
			require.NoError(t, err)
			require.Equal(t, hashes.Replace(c.after), string(got))
			again, err := config.WithAttestation(got, "p", pinned)
			require.NoError(t, err)
			require.Equal(t, string(got), string(again), "a second time changes nothing")
		})
	}
}

// What would lose something is refused, and nothing is returned.
func TestAttestationIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"profiles: {q: {}}": `the file has no profile "p"`,
		"profiles:\n  p:\n    permissions:" + strings.Replace(strings.ReplaceAll(oldBlock, ": A", ": "+hashA), "tools:", "tools: # reviewed", 1): "holds a comment in line 4 to 8, which would be lost",
		"profiles:\n  p: {permissions: {attestation: { # reviewed\n    toolsetHash: " + hashA + ", authorityHash: " + hashA + ", tools: {}}}}\n": "holds a comment in line 2 to 3, which would be lost",
	} {
		_, err := config.Parse("a.yaml", []byte(text))
		require.NoError(t, err)
		out, err := config.WithAttestation([]byte(text), "p", pinned)
		require.ErrorContains(t, err, want)
		assert.Nil(t, out)
	}
	_, err := config.WithAttestation(nil, "p", pinned)
	require.Error(t, err)
}

// Whatever file can be read either holds the attestation afterwards and says the same otherwise, or stays.
func FuzzWithAttestation(f *testing.F) {
	for _, text := range []string{"profiles: {p: {}}", "profiles:\n  p:\n    permissions:\n      preset: open\n", "profiles:\n p:\n  tools:\n  - a\n",
		"profiles:\n  p:\n    permissions: {attestation: {toolsetHash: " + hashA + ", authorityHash: " + hashA + ", tools: {}}}\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		before, err := config.Parse("p.yaml", []byte(text))
		if err != nil {
			return
		}
		out, err := config.WithAttestation([]byte(text), "p", pinned)
		if err != nil {
			return
		}
		after, err := config.Parse("p.yaml", out)
		require.NoError(t, err)
		require.Equal(t, pinned, *after.Profiles["p"].Attestation)
		require.Equal(t, before.Engine, after.Engine)
		require.Equal(t, before.Profiles["p"].Permissions, after.Profiles["p"].Permissions)
	})
}
