package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/assent-dev/assent/internal/exit"
)

func (a *app) keygenCommand() *cobra.Command {
	var name string
	var public bool
	cmd := &cobra.Command{
		Use:   "keygen FILE",
		Short: "Make a key that signs answers",
		Long: `Make an ed25519 key that signs answers: the private half goes into FILE, which only you can read, and the line that makes
it known to the workers is printed. It belongs under engine.keys of their configuration.

An existing file is never overwritten; --public prints the line of one.`,
		Example: "  starter keygen alice.pem --name alice\n  starter keygen --public alice.pem --name alice\n  starter approve shell-3f9a1c07 --sign alice.pem --by alice",
		GroupID: groupApprovals,
		Args:    oneArg("the FILE of the key"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.keygen(args[0], name, public) },
	}
	cmd.Flags().StringVar(&name, "name", "", "the principal whose key it is (default $USER)")
	cmd.Flags().BoolVar(&public, "public", false, "print the public half of a key that is there")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) keygen(path, name string, public bool) error {
	if name == "" {
		name = whoami()
	}
	if name == "" {
		return exit.Usagef("starter keygen "+shellQuote(path)+" --name alice", "--name is missing")
	}
	from := newKey
	if public {
		from = readKey
	}
	key, err := from(path)
	if err != nil {
		return err
	}
	half := "ed25519:" + base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
	if a.json() {
		return a.printJSON(map[string]string{"name": name, "public": half, "file": path})
	}
	a.printf("%s: %s\n", yamlName(name), half)
	a.note("put this line under engine.keys of the workers' configuration")
	return nil
}

// newKey writes a private key to a file that is not there yet.
func newKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, exit.Usagef("print its public half with: starter keygen --public "+shellQuote(path), "%s is there already and is not overwritten", path)
	}
	if err != nil {
		return nil, fmt.Errorf("write key: %w", err)
	}
	err = pem.Encode(file, &pem.Block{Type: pemPrivate, Bytes: der})
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("write key: %w", err), os.Remove(path))
	}
	return key, nil
}

// yamlName quotes a name that would be something else than text in YAML.
func yamlName(name string) string {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '-' && r != '_' && r != '.' && r != '@' && (r < '0' || r > '9')) {
			return fmt.Sprintf("%q", name)
		}
	}
	switch name {
	case "true", "false", "null", "yes", "no", "on", "off", "True", "False", "Null", "y", "n":
		return fmt.Sprintf("%q", name)
	}
	return name
}
