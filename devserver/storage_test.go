package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/searchattribute/sadefs"
)

func TestDatabaseIsMadeWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "odd name?#%.db")
	require.NoError(t, makeDatabase(path))
	require.NoError(t, makeDatabase(path), "one that is there is checked and kept")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no leftovers")

	err = makeDatabase(filepath.Join(dir, "none", "x.db"))
	var f *failure
	require.ErrorAs(t, err, &f)
	assert.Contains(t, f.hint, "must exist")
}

func TestDatabaseOfAnotherVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	require.NoError(t, makeDatabase(path))
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	_, err = db.Exec("ALTER TABLE namespaces DROP COLUMN notification_version")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	var f *failure
	require.ErrorAs(t, makeDatabase(path), &f)
	assert.Contains(t, f.msg, "has no namespaces.notification_version")
	assert.Contains(t, f.hint, "--db-filename")
}

func TestFileThatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	require.NoError(t, os.WriteFile(path, []byte("something else that is long enough to look at"), 0o644))
	var f *failure
	require.ErrorAs(t, makeDatabase(path), &f)
	assert.NotEmpty(t, f.hint)
}

func TestAssignAttributes(t *testing.T) {
	keyword, list := enumspb.INDEXED_VALUE_TYPE_KEYWORD, enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST

	got, err := assign(nil, map[string]enumspb.IndexedValueType{"A": keyword, "B": list, "C": keyword})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"Keyword01": "A", "KeywordList01": "B", "Keyword02": "C"}, got)

	got, err = assign(map[string]string{"Keyword02": "A"}, map[string]enumspb.IndexedValueType{"A": keyword})
	require.NoError(t, err)
	assert.Nil(t, got, "nothing is missing")

	have := map[string]string{"Keyword01": "Theirs"}
	got, err = assign(have, map[string]enumspb.IndexedValueType{"A": keyword})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"Keyword01": "Theirs", "Keyword02": "A"}, got)
	assert.Len(t, have, 1, "the argument is not changed")

	_, err = assign(have, map[string]enumspb.IndexedValueType{"Theirs": list})
	require.EqualError(t, err, `search attribute "Theirs" is Keyword there and KeywordList here`)

	full := map[string]string{}
	for field, kind := range sadefs.GetDBIndexSearchAttributes(nil).CustomSearchAttributes {
		if kind == list {
			full[field] = "Theirs" + field
		}
	}
	_, err = assign(full, map[string]enumspb.IndexedValueType{"A": list})
	require.EqualError(t, err, `search attribute "A": no KeywordList field is left`)
}
