package pack

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// git runs the real git, the referee, on a bare repository.
func git(t testing.TB, dir string, stdin []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.Output()
	require.NoError(t, err, "git %v", args)
	return out
}

func parseID(t testing.TB, text string) (id ID) {
	t.Helper()
	b, err := hex.DecodeString(strings.TrimSpace(text))
	require.NoError(t, err)
	require.Len(t, b, len(id))
	return ID(b)
}

// texts returns contents of many sizes of which most are small edits of another, so that git makes deltas of them.
func texts(seed uint64, n int) [][]byte {
	r := rand.New(rand.NewPCG(seed, 1))
	var out [][]byte
	for i := range n {
		var data []byte
		if i > 0 && r.IntN(4) > 0 {
			data = bytes.Clone(out[r.IntN(i)])
			for range 1 + r.IntN(5) {
				at := r.IntN(len(data) + 1)
				switch piece := word(r, r.IntN(40)); r.IntN(3) {
				case 0:
					data = append(data[:at:at], append(piece, data[at:]...)...)
				case 1:
					data = append(data[:at:at], data[min(len(data), at+len(piece)):]...)
				default:
					data = append(data[at:len(data):len(data)], data[:at]...)
				}
			}
		} else {
			data = word(r, r.IntN(1<<r.IntN(19)))
		}
		out = append(out, data)
	}
	return out
}

func word(r *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.IntN(1 + r.IntN(256)))
	}
	return out
}

// repository makes a bare repository with the given blobs, loose, and returns their ids.
func repository(t testing.TB, blobs [][]byte) (dir string, ids []ID) {
	t.Helper()
	dir = t.TempDir()
	git(t, dir, nil, "init", "-q", "--bare", ".")
	var paths bytes.Buffer
	files := t.TempDir()
	for i, data := range blobs {
		path := filepath.Join(files, fmt.Sprint(i))
		require.NoError(t, os.WriteFile(path, data, 0o600))
		fmt.Fprintln(&paths, path)
	}
	for line := range strings.Lines(string(git(t, dir, paths.Bytes(), "hash-object", "-w", "--no-filters", "--stdin-paths"))) {
		ids = append(ids, parseID(t, line))
	}
	require.Len(t, ids, len(blobs))
	return dir, ids
}

// packAll packs everything and removes what is loose.
func packAll(t testing.TB, dir string, ids []ID, args ...string) {
	t.Helper()
	var list bytes.Buffer
	for _, id := range ids {
		fmt.Fprintln(&list, id)
	}
	args = append([]string{"pack-objects", "-q", "--window=20", "--depth=50"}, args...)
	git(t, dir, list.Bytes(), append(args, "objects/pack/pack")...)
	git(t, dir, nil, "prune-packed", "-q")
}

func open(t testing.TB, dirs ...string) *Store {
	t.Helper()
	for i := range dirs {
		dirs[i] = filepath.Join(dirs[i], "objects")
	}
	s, err := Open(dirs...)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func requireAll(t testing.TB, s *Store, ids []ID, blobs [][]byte) {
	t.Helper()
	for i, id := range ids {
		kind, data, err := s.Read(id)
		require.NoError(t, err)
		require.Equal(t, Blob, kind)
		require.True(t, bytes.Equal(blobs[i], data), "%v", id)
		kind, size, err := s.Info(id)
		require.NoError(t, err)
		require.Equal(t, Blob, kind)
		require.Equal(t, int64(len(blobs[i])), size)
		var out bytes.Buffer
		require.NoError(t, s.Copy(&out, id))
		require.True(t, bytes.Equal(blobs[i], out.Bytes()))
	}
}

func TestReadsWhatGitWrites(t *testing.T) {
	blobs := texts(1, 100)
	blobs = append(blobs, nil, []byte("x"), bytes.Repeat([]byte("long and boring\n"), 80_000), word(rand.New(rand.NewPCG(3, 3)), 5<<18))
	for name, args := range map[string][]string{
		"offset deltas": {"--delta-base-offset"}, "ref deltas": nil, "stored": {"--compression=0", "--delta-base-offset"},
		"64-bit offsets": {"--index-version=2,0x40", "--delta-base-offset"}, "no deltas": {"--window=0"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, ids := repository(t, blobs)
			if name == "stored" { // what is loose is the same each time
				requireAll(t, open(t, dir), ids, blobs)
			}
			packAll(t, dir, ids, args...)
			s := open(t, dir)
			require.Len(t, s.packs, 1)
			requireAll(t, s, ids, blobs)
			small := openSmall(t, dir)
			require.Nil(t, small.packs[0].index.data)
			requireAll(t, small, ids, blobs)
			if chains := string(git(t, dir, nil, "verify-pack", "-s", filepath.Join("objects", "pack", filepath.Base(s.packs[0].path)))); name != "no deltas" {
				require.Contains(t, chains, "chain length = 2")
			}
		})
	}
}

// openSmall opens a store that loads no index.
func openSmall(t *testing.T, dir string) *Store {
	s := &Store{folders: []string{filepath.Join(dir, "objects")}, known: map[string]bool{}, cache: newCache(1000)}
	_, err := s.scan()
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestReadsOtherKindsAndOtherFolders(t *testing.T) {
	one, ids := repository(t, [][]byte{[]byte("one\n")})
	tree := parseID(t, string(git(t, one, fmt.Appendf(nil, "100644 blob %v\tname\n", ids[0]), "mktree")))
	commit := parseID(t, string(git(t, one, []byte("tree "+tree.String()+"\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nx\n"), "hash-object", "-t", "commit", "-w", "--stdin")))
	two, others := repository(t, [][]byte{[]byte("two\n")})
	s := open(t, one, two)
	for id, want := range map[ID]Kind{ids[0]: Blob, tree: Tree, commit: Commit, others[0]: Blob} {
		kind, _, err := s.Read(id)
		require.NoError(t, err)
		require.Equal(t, want, kind)
	}
	require.ErrorContains(t, s.Copy(io.Discard, tree), "is a tree, not a blob")
	_, _, err := s.Read(ID{1})
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorIs(t, s.Copy(io.Discard, ID{1}), ErrNotFound)

	// What is packed away or comes new while a store is open is found.
	packAll(t, one, []ID{ids[0], tree, commit})
	kind, _, err := s.Read(commit)
	require.NoError(t, err)
	require.Equal(t, Commit, kind)
	for _, id := range []ID{ids[0], tree, commit, others[0]} {
		found := map[ID]bool{}
		require.NoError(t, s.Find(id[:2], func(got ID) { found[got] = true }))
		require.True(t, found[id])
	}
}

func TestManyMayReadAtOnce(t *testing.T) {
	blobs := texts(5, 100)
	dir, ids := repository(t, blobs)
	packAll(t, dir, ids, "--delta-base-offset")
	s := open(t, dir)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i, id := range ids {
				_, data, err := s.Read(id)
				assert.NoError(t, err)
				assert.True(t, bytes.Equal(blobs[i], data))
			}
		})
	}
	wg.Wait()
}

// readAll reads every object and returns the errors; what is read without one is right by its id.
func readAll(t testing.TB, dir string, ids []ID, blobs [][]byte) (errs []error) {
	t.Helper()
	s, err := Open(filepath.Join(dir, "objects"))
	require.NoError(t, err)
	defer s.Close()
	for i, id := range ids {
		_, data, err := s.Read(id)
		if err != nil {
			errs = append(errs, err)
		} else {
			require.True(t, bytes.Equal(blobs[i], data))
		}
		_, _, _ = s.Info(id)
		_ = s.Copy(io.Discard, id)
	}
	return errs
}

// typed reports whether an error is one that callers can tell.
func typed(err error) bool {
	var damaged *DamagedError
	var large *TooLargeError
	var version *VersionError
	return errors.Is(err, ErrNotFound) || errors.As(err, &damaged) || errors.As(err, &large) || errors.As(err, &version)
}

func TestDamageIsAnError(t *testing.T) {
	blobs := texts(9, 40)
	dir, ids := repository(t, blobs)
	packAll(t, dir, ids, "--delta-base-offset")
	packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
	require.NoError(t, err)
	require.Len(t, packs, 1)
	index := strings.TrimSuffix(packs[0], ".pack") + ".idx"
	for _, file := range []string{packs[0], index} {
		require.NoError(t, os.Chmod(file, 0o600))
		whole, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, keep := range []int{0, 3, 11, 30, 1000, len(whole) / 2, len(whole) - 30, len(whole) - 1} {
			require.NoError(t, os.WriteFile(file, whole[:min(keep, len(whole))], 0o600))
			for _, err := range readAll(t, dir, ids, blobs) {
				require.True(t, typed(err), "%s cut to %d: %v", file, keep, err)
			}
		}
		require.NoError(t, os.WriteFile(file, whole[:len(whole)/2], 0o600))
		require.NotEmpty(t, readAll(t, dir, ids, blobs))
		r := rand.New(rand.NewPCG(8, 8))
		for range 60 {
			broken := bytes.Clone(whole)
			for range 1 + r.IntN(3) {
				broken[r.IntN(len(broken))] ^= 1 << r.IntN(8)
			}
			require.NoError(t, os.WriteFile(file, broken, 0o600))
			for _, err := range readAll(t, dir, ids, blobs) {
				require.True(t, typed(err), "%v", err)
			}
		}
		require.NoError(t, os.WriteFile(file, whole, 0o600))
	}
	require.Empty(t, readAll(t, dir, ids, blobs))

	require.NoError(t, os.Remove(index))
	require.NoError(t, syscall.Mkfifo(index, 0o600))
	require.NotEmpty(t, readAll(t, dir, ids, blobs))
}

// A bad pack beside good ones does not hide them.
func TestBadPackHidesNothing(t *testing.T) {
	blobs := texts(11, 20)
	dir, ids := repository(t, blobs)
	packAll(t, dir, ids)
	bad := filepath.Join(dir, "objects", "pack", "pack-0000000000000000000000000000000000000000")
	require.NoError(t, os.WriteFile(bad+".idx", []byte("nonsense"), 0o600))
	require.NoError(t, os.WriteFile(bad+".pack", []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00"), 0o600))
	require.Empty(t, readAll(t, dir, ids, blobs))
	_, _, err := open(t, dir).Read(ID{7})
	require.ErrorIs(t, err, ErrNotFound)
	var version *VersionError
	require.True(t, errors.As(err, &version) || typed(err))
}

// A copy that is damaged is passed over for one that is not.
func TestAnotherCopyIsTried(t *testing.T) {
	blobs := texts(12, 10)
	dir, ids := repository(t, blobs)
	for _, id := range ids {
		path := filepath.Join(dir, "objects", id.String()[:2], id.String()[2:])
		require.NoError(t, os.Chmod(path, 0o600))
		require.NoError(t, os.WriteFile(path, []byte("\x78\x9cnonsense"), 0o600))
	}
	require.Len(t, readAll(t, dir, ids, blobs), len(ids))
	other, _ := repository(t, blobs)
	s := open(t, dir, other)
	for _, id := range ids {
		_, _, err := s.Read(id)
		require.NoError(t, err)
	}
}

// made writes a pack of the given objects with an index, whatever they say.
func made(t testing.TB, objects ...object) string {
	t.Helper()
	return madeIn(t, t.TempDir(), objects...)
}

// madeIn makes it in dir, in place of one that is there.
func madeIn(t testing.TB, dir string, objects ...object) string {
	t.Helper()
	folder := filepath.Join(dir, "objects", "pack")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	body := []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	at := map[byte]int{}
	for _, o := range objects {
		at[o.name] = len(body)
		body = append(append(body, o.head...), squeezed(o.data)...)
	}
	body = append(body, make([]byte, 20)...)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "pack-x.pack"), body, 0o600))
	idx := []byte("\xfftOc\x00\x00\x00\x02")
	n := uint32(0)
	for i := range 256 {
		if _, ok := at[byte(i)]; ok {
			n++
		}
		idx = binary.BigEndian.AppendUint32(idx, n)
	}
	var offsets []byte
	for i := range 256 {
		if o, ok := at[byte(i)]; ok {
			idx = append(idx, named(byte(i)).bytes()...)
			offsets = binary.BigEndian.AppendUint32(offsets, uint32(o))
		}
	}
	idx = append(append(append(idx, make([]byte, 4*n)...), offsets...), make([]byte, 40)...)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "pack-x.idx"), idx, 0o600))
	return dir
}

// object is one of a pack that is made by hand: its id is its name and nothing else.
type object struct {
	name byte
	head []byte
	data []byte
}

func named(b byte) ID { return ID{b} }

func (id ID) bytes() []byte { return id[:] }

func TestImpossibleObjectsAreErrors(t *testing.T) {
	uvarint := func(v ...uint64) (out []byte) {
		for _, v := range v {
			out = binary.AppendUvarint(out, v)
		}
		return out
	}
	toSelf := append([]byte{7<<4 | 3}, named(1).bytes()...)
	toTwo := append([]byte{7<<4 | 3}, named(2).bytes()...)
	for name, objects := range map[string][]object{
		"delta of itself":              {{1, toSelf, []byte("\x01\x01\x90")}},
		"deltas of each other":         {{1, toTwo, []byte("\x01\x01\x90")}, {2, toSelf, []byte("\x01\x01\x90")}},
		"delta of what is not there":   {{1, append([]byte{7<<4 | 3}, named(9).bytes()...), []byte("\x01\x01\x90")}},
		"delta of what is before":      {{1, []byte{6<<4 | 3, 0x7f}, []byte("\x01\x01\x90")}},
		"delta of offset zero":         {{1, []byte{6<<4 | 3, 0}, []byte("\x01\x01\x90")}},
		"offset without an end":        {{1, append([]byte{6<<4 | 3}, bytes.Repeat([]byte{0xff}, 20)...), nil}},
		"unknown kind":                 {{1, []byte{5 << 4}, nil}},
		"kind zero":                    {{1, []byte{0}, nil}},
		"size without an end":          {{1, append([]byte{3<<4 | 0x80}, bytes.Repeat([]byte{0xff}, 20)...), nil}},
		"a size no stream can make":    {{1, []byte{3<<4 | 0x80, 0xff, 0xff, 0xff, 0xff, 0x7f}, []byte("x")}},
		"a size more than there is":    {{1, []byte{3<<4 | 9}, []byte("x")}},
		"a size less than there is":    {{1, []byte{3<<4 | 1}, []byte("xyz")}},
		"no deflate":                   {{1, []byte{3<<4 | 1, 0x00, 0x00}, nil}},
		"delta that promises a lot":    {{1, append([]byte{7<<4 | 6}, named(2).bytes()...), append(uvarint(1, 1<<28), 0x90)}, {2, []byte{3<<4 | 1}, []byte("x")}},
		"delta that promises too much": {{1, append([]byte{7<<4 | 7}, named(2).bytes()...), append(uvarint(1, 1<<33), 0x90)}, {2, []byte{3<<4 | 1}, []byte("x")}},
		"delta of another size":        {{1, toTwo, []byte("\x05\x01\x90")}, {2, []byte{3<<4 | 1}, []byte("x")}},
		"delta beyond its base":        {{1, append([]byte{7<<4 | 4}, named(2).bytes()...), []byte("\x01\x01\x91\x07")}, {2, []byte{3<<4 | 1}, []byte("x")}},
		"delta of no instruction":      {{1, append([]byte{7<<4 | 3}, named(2).bytes()...), []byte("\x01\x01\x00")}, {2, []byte{3<<4 | 1}, []byte("x")}},
		"delta cut short":              {{1, append([]byte{7<<4 | 3}, named(2).bytes()...), []byte("\x01\x05\x05")}, {2, []byte{3<<4 | 1}, []byte("x")}},
		"another id":                   {{1, []byte{3<<4 | 1}, []byte("x")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, made(t, objects...))
			_, _, err := s.Read(named(1))
			require.Error(t, err)
			require.NotErrorIs(t, err, ErrNotFound)
			require.True(t, typed(err), "%v", err)
			_, _, _ = s.Info(named(1))
			require.Error(t, s.Copy(io.Discard, named(1)))
		})
	}
}

func TestDeepChain(t *testing.T) {
	same := []byte("\x01\x01\x90\x01") // copy one byte
	objects := []object{{1, []byte{3<<4 | 1}, []byte("x")}}
	for back := byte(len(squeezed(same)) + 2); len(objects) < deepest+11; {
		objects = append(objects, object{2, []byte{6<<4 | 4, back}, same})
	}
	objects[1].head[1] = byte(len(squeezed([]byte("x"))) + 1)
	dir := made(t, objects...)
	_, _, err := open(t, dir).Read(named(2))
	require.ErrorContains(t, err, "does not end")
	_, _, err = open(t, dir).Info(named(2))
	require.ErrorContains(t, err, "does not end")
}

func TestLooseDamage(t *testing.T) {
	for name, content := range map[string][]byte{
		"empty": nil, "no zlib": []byte("hello"), "no head": squeezed([]byte("hello")), "kind": squeezed([]byte("blub 1\x00x")),
		"negative": squeezed([]byte("blob -1\x00")), "more": squeezed([]byte("blob 9\x00x")), "less": squeezed([]byte("blob 1\x00xyz")),
		"huge": squeezed([]byte("blob 99999999999\x00x")), "endless head": squeezed(bytes.Repeat([]byte("1"), 1000)), "another id": squeezed([]byte("blob 1\x00x")),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			id := named(0x42)
			folder := filepath.Join(dir, "objects", "42")
			require.NoError(t, os.MkdirAll(folder, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(folder, id.String()[2:]), content, 0o600))
			s := open(t, dir)
			_, _, err := s.Read(id)
			var damaged *DamagedError
			require.ErrorAs(t, err, &damaged)
			_, _, _ = s.Info(id)
			require.Error(t, s.Copy(io.Discard, id))
		})
	}
	_, _, err := openFile(t.TempDir())
	require.ErrorIs(t, err, fs.ErrInvalid)
}
