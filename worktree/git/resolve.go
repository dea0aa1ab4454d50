package git

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/assent-dev/assent/fault"
	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git/pack"
)

// Resolve pins iso.Ref, or HEAD, to a commit and its tree. A ref is a name, an object id or its unique
// beginning of at least 4 digits, each with any of the suffixes ~n, ^n, ^0, ^{} and ^{commit}; it is verified
// and never read as an option. It changes nothing on disk.
func (d *Driver) Resolve(ctx context.Context, iso worktree.Isolation) (worktree.Resolved, error) {
	if err := ctx.Err(); err != nil {
		return worktree.Resolved{}, err
	}
	ref := iso.Ref
	if ref == "" {
		ref = "HEAD"
	}
	at, err := d.resolve(iso, ref)
	if d.needsGit(err) {
		return d.resolveByGit(ctx, iso, ref)
	}
	return at, err
}

func (d *Driver) resolve(iso worktree.Isolation, ref string) (worktree.Resolved, error) {
	h, err := d.openHost(iso.Repo)
	if err != nil {
		return worktree.Resolved{}, err
	}
	defer h.close()
	id, err := h.resolve(ref)
	if err != nil {
		return worktree.Resolved{}, err
	}
	tree, err := h.treeOf(id)
	if err != nil {
		return worktree.Resolved{}, err
	}
	return worktree.Resolved{Repo: iso.Repo, Ref: ref, Commit: id.String(), Tree: tree.String(),
		Private: iso.Private || d.private(iso.Repo)}, nil
}

// resolve returns the commit of a revision.
func (h *host) resolve(ref string) (plumbing.Hash, error) {
	bad := func(format string, args ...any) (plumbing.Hash, error) {
		return plumbing.ZeroHash, badRef(ref, format, args...)
	}
	if err := h.refuseReplaced(); err != nil {
		return plumbing.ZeroHash, err
	}
	name, suffix, err := splitRevision(ref)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	id, err := h.named(name)
	var unborn *unbornError
	switch {
	case errors.As(err, &unborn):
		return bad("has no commit yet in repository %q", h.name)
	case errors.Is(err, errNoRef):
		return bad("is not in repository %q", h.name)
	case err != nil:
		return plumbing.ZeroHash, err
	}
	if id, err = h.peel(id); err == nil {
		id, err = h.follow(id, suffix)
	}
	if errors.Is(err, errNoRef) {
		return bad("does not name a commit in repository %q", h.name)
	}
	return id, err
}

// badRef is the error of a revision that cannot be served.
func badRef(ref, format string, args ...any) error {
	return fault.Configf("isolation.ref", "%q "+format, append([]any{ref}, args...)...)
}

// splitRevision parts a revision into a name, which is valid, and its suffixes, which may not be.
func splitRevision(ref string) (name, suffix string, err error) {
	if strings.HasPrefix(ref, "-") {
		return "", "", badRef(ref, "looks like an option")
	}
	name = ref
	if i := strings.IndexAny(ref, "~^"); i >= 0 {
		name, suffix = ref[:i], ref[i:]
	}
	if name == "@" {
		name = "HEAD"
	}
	if !validRef(name) {
		return "", "", badRef(ref, "is not a ref name or an object id")
	}
	return name, suffix, nil
}

// unbornError reports a branch without a commit.
type unbornError struct{ name string }

func (e *unbornError) Error() string { return e.name + " has no commit yet" }

// named finds a name in git's order: a full id, then refs, then the beginning of an id.
func (h *host) named(name string) (plumbing.Hash, error) {
	if isFullHex(name) {
		return plumbing.NewHash(name), nil
	}
	for i, rule := range []string{"%s", "refs/%s", "refs/tags/%s", "refs/heads/%s", "refs/remotes/%s", "refs/remotes/%s/HEAD"} {
		full := fmt.Sprintf(rule, name)
		// A bare name means a file of the git directory only if it looks like HEAD, never config or index.
		if i == 0 && !strings.HasPrefix(name, "refs/") && !isPseudoRef(name) {
			continue
		}
		id, last, err := h.refs.resolve(full)
		if err == nil {
			return id, nil
		}
		if !errors.Is(err, errNoRef) {
			return id, err
		}
		if last != full {
			return id, &unbornError{last}
		}
	}
	if len(name) >= 4 && len(name) < 40 && isHex(name) {
		return h.abbreviated(strings.ToLower(name))
	}
	return plumbing.ZeroHash, errNoRef
}

func isPseudoRef(name string) bool {
	return name == "HEAD" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "" && strings.HasSuffix(name, "_HEAD")
}

// abbreviated finds the one commit or tag whose id begins with the given digits.
func (h *host) abbreviated(digits string) (plumbing.Hash, error) {
	prefix, err := hex.DecodeString(digits[:len(digits)&^1])
	if err != nil {
		return plumbing.ZeroHash, err
	}
	found := map[plumbing.Hash]bool{}
	err = h.objects.store.Find(prefix, func(id pack.ID) {
		if !strings.HasPrefix(id.String(), digits) {
			return
		}
		if kind, _, err := h.objects.info(plumbing.Hash(id)); err == nil && (kind == plumbing.CommitObject || kind == plumbing.TagObject) {
			found[plumbing.Hash(id)] = true
		}
	})
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("find object %q: %w", digits, err)
	}
	if len(found) > 1 {
		return plumbing.ZeroHash, fault.Configf("isolation.ref", "%q is the beginning of %d commits", digits, len(found))
	}
	for id := range found {
		return id, nil
	}
	return plumbing.ZeroHash, errNoRef
}

// peel follows tags to a commit.
func (h *host) peel(id plumbing.Hash) (plumbing.Hash, error) {
	for range 16 {
		data, kind, err := h.objects.read(id)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return id, errNoRef
		}
		if err != nil {
			return id, err
		}
		switch kind {
		case plumbing.CommitObject:
			return id, nil
		case plumbing.TagObject:
			to, ok := headerID(data, "object")
			if !ok {
				return id, fmt.Errorf("read tag %s: it names no object", id)
			}
			id = to
		default:
			return id, errNoRef
		}
	}
	return id, errNoRef
}

// follow applies the suffixes of a revision.
func (h *host) follow(id plumbing.Hash, suffix string) (plumbing.Hash, error) {
	for suffix != "" {
		op := suffix[0]
		suffix = suffix[1:]
		if op == '^' && strings.HasPrefix(suffix, "{") {
			kind, rest, ok := strings.Cut(suffix[1:], "}")
			if !ok || kind != "" && kind != "commit" {
				return id, errNoRef
			}
			suffix = rest
			continue
		}
		n := 0
		for n < len(suffix) && suffix[n] >= '0' && suffix[n] <= '9' {
			n++
		}
		count := 1
		if n > 0 {
			var err error
			if count, err = strconv.Atoi(suffix[:n]); err != nil {
				return id, errNoRef
			}
			suffix = suffix[n:]
		}
		var err error
		if op == '^' {
			if count > 0 {
				id, err = h.parent(id, count)
			}
		} else if op == '~' {
			for ; count > 0 && err == nil; count-- {
				id, err = h.parent(id, 1)
			}
		} else {
			err = errNoRef
		}
		if err != nil {
			return id, err
		}
	}
	return id, nil
}

// parent returns the nth parent of a commit, counted from 1.
func (h *host) parent(id plumbing.Hash, n int) (plumbing.Hash, error) {
	data, err := h.objects.readAs(plumbing.CommitObject, id)
	if err != nil {
		return id, err
	}
	for line := range bytes.Lines(data) {
		if len(line) <= 1 {
			break
		}
		if p, ok := headerID(line, "parent"); ok {
			if n--; n == 0 {
				return p, nil
			}
		}
	}
	return id, errNoRef
}

// treeOf returns the tree of a commit.
func (h *host) treeOf(id plumbing.Hash) (plumbing.Hash, error) {
	data, err := h.objects.readAs(plumbing.CommitObject, id)
	if err != nil {
		return id, err
	}
	tree, ok := headerID(data, "tree")
	if !ok {
		return id, fmt.Errorf("read commit %s: it names no tree", id)
	}
	return tree, nil
}

// headerID reads `<key> <40 hex digits>\n` from the beginning of an object.
func headerID(data []byte, key string) (plumbing.Hash, bool) {
	rest, ok := bytes.CutPrefix(data, []byte(key+" "))
	if !ok || len(rest) < 41 || rest[40] != '\n' || !isFullHex(string(rest[:40])) {
		return plumbing.ZeroHash, false
	}
	return plumbing.NewHash(string(rest[:40])), true
}

// refuseReplaced refuses replace refs: with them git shows other objects than the ones that are named.
func (h *host) refuseReplaced() error {
	packed, err := h.refs.packed()
	if err != nil {
		return err
	}
	needs := &worktree.NeedsGitError{Reason: "replace refs"}
	for name := range packed {
		if strings.HasPrefix(name, "refs/replace/") {
			return needs
		}
	}
	entries, err := os.ReadDir(filepath.Join(h.common, "refs", "replace"))
	if err == nil && len(entries) > 0 {
		return needs
	}
	return nil
}
