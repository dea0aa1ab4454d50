package git_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/assent-dev/assent/worktree"
	"github.com/assent-dev/assent/worktree/git"
)

// One agent's tree from its first file to the last: resolve, acquire, work, collect, dispose.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	check(err)
	defer os.RemoveAll(dir)
	host := filepath.Join(dir, "host")
	commit(host, "greeting.txt", "hello\n")

	driver, err := git.New(git.Config{Repos: map[string]string{"shop": host}, Root: filepath.Join(dir, "trees")})
	check(err)
	defer driver.Close()

	ctx := context.Background()
	at, err := driver.Resolve(ctx, worktree.Isolation{Kind: worktree.Tree, Repo: "shop"})
	check(err)
	lease, err := driver.Acquire(ctx, worktree.Identity{Namespace: "default", WorkflowID: "fix"}, at)
	check(err)
	check(os.WriteFile(filepath.Join(lease.Dir, "greeting.txt"), []byte("hello, world\n"), 0o666))

	patch, err := driver.Collect(ctx, lease)
	check(err)
	for _, f := range patch.Files {
		fmt.Println(f.Status, f.Path, f.Insertions, f.Deletions)
	}
	check(driver.Dispose(ctx, lease, false))
	_, err = driver.Acquire(ctx, worktree.Identity{Namespace: "default", WorkflowID: "fix"}, at)
	_, isGone := err.(*worktree.GoneError)
	fmt.Println("gone:", isGone)
	// Output:
	// modified greeting.txt 1 1
	// gone: true
}

// commit makes a repository with one file.
func commit(host, name, content string) {
	s := filesystem.NewStorage(osfs.New(filepath.Join(host, ".git")), cache.NewObjectLRUDefault())
	check(s.Init())
	store := func(kind plumbing.ObjectType, text string) plumbing.Hash {
		obj := s.NewEncodedObject()
		obj.SetType(kind)
		w, err := obj.Writer()
		check(err)
		_, err = io.WriteString(w, text)
		check(err)
		id, err := s.SetEncodedObject(obj)
		check(err)
		return id
	}
	blob := store(plumbing.BlobObject, content)
	tree := store(plumbing.TreeObject, "100644 "+name+"\x00"+string(blob[:]))
	const by = "A <a@example.com> 1700000000 +0000\n"
	id := store(plumbing.CommitObject, "tree "+tree.String()+"\nauthor "+by+"committer "+by+"\nbase\n")
	check(s.SetReference(plumbing.NewHashReference("refs/heads/main", id)))
	check(s.SetReference(plumbing.NewSymbolicReference("HEAD", "refs/heads/main")))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
