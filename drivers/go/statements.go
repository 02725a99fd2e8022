package main

import (
	"fmt"
	"strings"
)

const (
	point  = "SELECT id, k, c, pad FROM upshift_drivers WHERE id = ?"
	ten    = "SELECT id, k, c, pad FROM upshift_drivers WHERE id BETWEEN ? AND ?"
	all    = "SELECT id, k, c, pad FROM upshift_drivers WHERE id <= ?"
	update = "UPDATE upshift_drivers SET k = k + ? WHERE id = ?"
	insert = "INSERT INTO upshift_drivers_added (k, c) VALUES (?, ?)"
)

// placeholders writes ? as $1, $2 for PostgreSQL.
func placeholders(sql string, dollars bool) string {
	if !dollars {
		return sql
	}
	parts := strings.Split(sql, "?")
	var text strings.Builder
	text.WriteString(parts[0])
	for number, part := range parts[1:] {
		fmt.Fprintf(&text, "$%d%s", number+1, part)
	}
	return text.String()
}

func require(right bool, otherwise string) error {
	if right {
		return nil
	}
	return fmt.Errorf("%s", otherwise)
}
