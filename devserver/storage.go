package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence"
	"go.temporal.io/server/common/persistence/serialization"
	persistencesql "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/resolver"
	"go.temporal.io/server/common/searchattribute/sadefs"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// prepareStorage makes the database ready for the server: the file with its tables, the namespaces, and the search
// attributes in each of them. It runs before the server does, so that the server never sees a half-made namespace.
func (p *plan) prepareStorage() error {
	store, err := p.sqlStore()
	if err != nil {
		return err
	}
	if p.dbFile == "" {
		// The plugin keeps memory databases of the same name for the life of the process.
		store.DatabaseName = fmt.Sprintf("%s-%d", store.DatabaseName, rand.Uint64())
	} else {
		if err := makeDatabase(p.dbFile); err != nil {
			return err
		}
		store.DatabaseName = escapePath(p.dbFile)
		store.ConnectAttributes = maps.Clone(p.pragmas)
		store.ConnectAttributes["mode"] = "rw"
	}
	for _, name := range p.namespaces {
		ns, err := sqliteschema.NewNamespaceConfig(p.cfg.ClusterMetadata.CurrentClusterName, name, false, p.attributes)
		if err != nil {
			return fmt.Errorf("namespace %q: %w", name, err)
		}
		if err := sqliteschema.CreateNamespaces(store, ns); err != nil {
			return fmt.Errorf("namespace %q: %w", name, err)
		}
		if err := addAttributes(store, name, p.attributes); err != nil {
			return fmt.Errorf("namespace %q: %w", name, err)
		}
	}
	return nil
}

// sqlStore returns the one sqlite store of the configuration.
func (p *plan) sqlStore() (*config.SQL, error) {
	c := p.cfg.Persistence
	store := c.DataStores[c.DefaultStore].SQL
	if store == nil || store.PluginName != sqlite.PluginName || c.VisibilityStore != c.DefaultStore {
		return nil, &failure{
			msg:  "persistence: defaultStore and visibilityStore are not one sqlite store",
			hint: "devserver keeps everything in sqlite; for another database run temporal-server",
		}
	}
	if p.cfg.ClusterMetadata == nil {
		return nil, &failure{msg: "clusterMetadata is missing in " + configName}
	}
	return store, nil
}

// escapePath makes a path fit for sqlite's `file:` URI.
func escapePath(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
}

// makeDatabase creates the file with its tables if there is none, or checks that the file has the tables of this
// server version.
//
// The tables are made in another file that is then renamed: a process killed midway must not leave a file that looks
// finished.
func makeDatabase(path string) error {
	_, err := os.Stat(path)
	if err == nil {
		return checkDatabase(path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("database %q: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return &failure{msg: fmt.Sprintf("create database %q", path), cause: err, hint: "the directory of --db-filename must exist and be writable"}
	}
	defer os.Remove(f.Name())
	defer f.Close()
	// Nothing is lost if this is interrupted, so neither a journal nor a flush for each of the 100 statements.
	db, err := openTables("file:" + escapePath(f.Name()) + "?_pragma=journal_mode=off&_pragma=synchronous=off")
	if err != nil {
		return fmt.Errorf("create database %q: %w", path, err)
	}
	if err := errors.Join(db.Close(), f.Sync(), f.Close(), os.Rename(f.Name(), path)); err != nil {
		return fmt.Errorf("create database %q: %w", path, err)
	}
	return nil
}

// openTables opens the empty database dsn and creates the tables of this server version in it.
func openTables(dsn string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // a second connection to a memory database would see another one
	if err := sqliteschema.SetupSchemaOnDB(statements{db: db}); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// statements is the part of AdminDB that SetupSchemaOnDB uses. The plugin's own AdminDB would keep the file open for
// the life of the process.
type statements struct {
	sqlplugin.AdminDB
	db *sql.DB
}

func (s statements) Exec(statement string, args ...any) error {
	_, err := s.db.Exec(statement, args...)
	return err
}

// checkDatabase reports a file that this server could not work with. Temporal has no migrations for sqlite: a file
// that another version made fails later, in ways that say nothing of the reason.
func checkDatabase(path string) error {
	wanted, err := openTables("file::memory:")
	if err != nil {
		return fmt.Errorf("check database %q: %w", path, err)
	}
	defer wanted.Close()
	got, err := sql.Open("sqlite", "file:"+escapePath(path)+"?mode=rw")
	if err != nil {
		return fmt.Errorf("check database %q: %w", path, err)
	}
	defer got.Close()
	wantedColumns, err := columns(wanted)
	if err != nil {
		return fmt.Errorf("check database %q: %w", path, err)
	}
	gotColumns, err := columns(got)
	if err != nil {
		return &failure{msg: fmt.Sprintf("check database %q", path), cause: err, hint: "name another file with --db-filename"}
	}
	for _, column := range slices.Sorted(maps.Keys(wantedColumns)) {
		if !gotColumns[column] {
			return &failure{
				msg:  fmt.Sprintf("database %q has no %s: it was not made by this version of the server", path, column),
				hint: "name another file with --db-filename, or use the server that made it",
			}
		}
	}
	return nil
}

// columns returns the set of `table.column` names of db.
func columns(db *sql.DB) (map[string]bool, error) {
	rows, err := db.Query("SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	set := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		set[name] = true
	}
	return set, rows.Err()
}

// addAttributes gives the namespace the search attributes that it does not have. One of the same name and another
// type is an error, because queries would silently find nothing.
func addAttributes(store *config.SQL, namespace string, attributes map[string]enumspb.IndexedValueType) error {
	db, err := persistencesql.NewSQLDB(sqlplugin.DbKindUnknown, store, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx := context.Background() // sqlite on this machine: there is nothing to wait for
	rows, err := db.SelectFromNamespace(ctx, sqlplugin.NamespaceFilter{Name: &namespace})
	if err != nil {
		return err
	}
	row := rows[0]
	serializer := serialization.NewSerializer()
	detail, err := serializer.NamespaceDetailFromBlob(persistence.NewDataBlob(row.Data, row.DataEncoding))
	if err != nil {
		return err
	}
	changed, err := assign(detail.Config.CustomSearchAttributeAliases, attributes)
	if err != nil {
		return err
	}
	if changed == nil {
		return nil
	}
	detail.Config.CustomSearchAttributeAliases = changed
	blob, err := serializer.NamespaceDetailToBlob(detail)
	if err != nil {
		return err
	}
	row.Data, row.DataEncoding = blob.Data, blob.EncodingType.String()
	_, err = db.UpdateNamespace(ctx, &row)
	return err
}

// assign returns aliases (database field to attribute name) with every attribute in it, or nil if nothing is missing.
func assign(aliases map[string]string, attributes map[string]enumspb.IndexedValueType) (map[string]string, error) {
	fields := sadefs.GetDBIndexSearchAttributes(nil).CustomSearchAttributes
	have := map[string]enumspb.IndexedValueType{}
	for field, name := range aliases {
		have[name] = fields[field]
	}
	var changed map[string]string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		kind := attributes[name]
		if old, ok := have[name]; ok {
			if old != kind {
				return nil, fmt.Errorf("search attribute %q is %v there and %v here", name, old, kind)
			}
			continue
		}
		if changed == nil {
			changed = maps.Clone(aliases)
			if changed == nil {
				changed = map[string]string{}
			}
		}
		free := ""
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			if _, taken := changed[field]; !taken && fields[field] == kind {
				free = field
				break
			}
		}
		if free == "" {
			return nil, fmt.Errorf("search attribute %q: no %v field is left", name, kind)
		}
		changed[free] = name
	}
	return changed, nil
}
