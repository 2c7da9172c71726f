package store

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gorm.io/gorm"

	"flashsale/orders"
)

// models are the rows of all tables that this program uses.
var models = []any{&orders.Sale{}, &orders.Order{}, &orders.Claim{}, &Node{}}

// columnsOf returns the table of a model and the columns that this program uses.
func (s *Store) columnsOf(model any) (table string, columns []string, err error) {
	parsed := &gorm.Statement{DB: s.DB}
	if err := parsed.Parse(model); err != nil {
		return "", nil, err
	}
	return parsed.Table, parsed.Schema.DBNames, nil
}

// checkColumns returns an error if a table of a database lacks a column that this program uses,
// with the ALTER TABLE that adds it. database is "" for the store's own.
//
// The schema version does not show this: the first migration was changed before the first
// release, and an archive has the columns that the store's tables had when it was created.
func (s *Store) checkColumns(ctx context.Context, database string, models ...any) error {
	if s.sqlite {
		return nil
	}
	var add []string
	for _, model := range models {
		table, columns, err := s.columnsOf(model)
		if err != nil {
			return err
		}
		var have []string
		err = s.DB.WithContext(ctx).Raw("SELECT LOWER(column_name) FROM information_schema.columns"+
			" WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ?", database, table).Scan(&have).Error
		if err != nil {
			return fmt.Errorf("read the columns of %s: %w", table, err)
		}
		for _, column := range columns {
			if !slices.Contains(have, column) {
				add = append(add, "ALTER TABLE "+qualified(database, table)+" ADD COLUMN "+definitionOf(table, column))
			}
		}
	}
	if len(add) > 0 {
		return fmt.Errorf("the schema was created by another version of this program and lacks columns: back up the database, then run: %s", strings.Join(add, "; "))
	}
	return nil
}

// qualified returns the name of a table with its database, if that is not "".
func qualified(database, table string) string {
	if database == "" {
		return table
	}
	return "`" + strings.ReplaceAll(database, "`", "``") + "`." + table
}

// definitionOf returns the definition of a column in the first migration. goose notices if a later
// migration is missing.
func definitionOf(table, column string) string {
	text, _ := migrations.ReadFile("migrations/mysql/00001_schema.sql")
	_, body, _ := strings.Cut(string(text), "CREATE TABLE IF NOT EXISTS "+table+" (")
	line := regexp.MustCompile(`(?m)^ +` + column + ` +([^,\n]*(?:\([^)]*\)[^,\n]*)?),`).FindStringSubmatch(body)
	if line == nil {
		return column
	}
	return column + " " + strings.Join(strings.Fields(line[1]), " ")
}
