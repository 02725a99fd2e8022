// DRIVER URL SETTINGS OPERATION COUNT: does the operation and prints one line of JSON about it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// Settings are the driver's options, and how the program uses it where that is no option.
type Settings struct {
	Options map[string]string `json:"options"`
	Use     map[string]string `json:"use"`
}

// Program is one driver's way to do what is counted and what is checked.
type Program interface {
	// Open connects once more and keeps that connection.
	Open(ctx context.Context) error
	// Select reads all rows and returns how many there were.
	Select(ctx context.Context, sql string, arguments ...any) (int64, error)
	Batch(ctx context.Context, sql string, arguments [][]any) error
	Transaction(ctx context.Context, number int) (int64, error)
	Check(ctx context.Context, name string) error
	Close(ctx context.Context) error
}

const batch = 100

type done struct {
	Driver    string `json:"driver"`
	Version   string `json:"driver_version"`
	Operation string `json:"operation"`
	Rows      int64  `json:"rows"`
	Ok        *bool  `json:"ok,omitempty"`
	Error     string `json:"error,omitempty"`
}

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: DRIVER URL SETTINGS OPERATION COUNT")
		os.Exit(2)
	}
	driver, url, operation := os.Args[1], os.Args[2], os.Args[4]
	said := done{Driver: driver, Operation: operation}
	if err := run(&said, driver, url, operation); err != nil {
		said.Error = err.Error()
	}
	line, _ := json.Marshal(said)
	fmt.Println(string(line))
	if said.Error != "" {
		os.Exit(1)
	}
}

func run(said *done, driver, url, operation string) error {
	var settings Settings
	if err := json.Unmarshal([]byte(os.Args[3]), &settings); err != nil {
		return err
	}
	count, err := strconv.Atoi(os.Args[5])
	if err != nil {
		return err
	}
	ctx := context.Background()
	var program Program
	switch driver {
	case "go-sql-driver":
		said.Version = version("github.com/go-sql-driver/mysql")
		program, err = newMysql(url, settings)
	case "pgx":
		said.Version = version("github.com/jackc/pgx/v5")
		program, err = newPgx(url, settings)
	default:
		err = fmt.Errorf("no driver is called %s", driver)
	}
	if err != nil {
		return err
	}
	if name, check := strings.CutPrefix(operation, "check_"); check {
		right := true
		said.Ok = &right
		if err := program.Check(ctx, name); err != nil {
			right = false
			return err
		}
		return nil
	}
	if err := program.Open(ctx); err != nil {
		return err
	}
	for number := range count {
		rows, err := once(ctx, program, driver == "pgx", operation, number)
		if err != nil {
			return err
		}
		said.Rows += rows
	}
	return program.Close(ctx)
}

func once(ctx context.Context, program Program, dollars bool, operation string, number int) (int64, error) {
	text := func(sql string) string { return placeholders(sql, dollars) }
	switch operation {
	case "connect":
		return 0, nil
	case "point_select":
		return program.Select(ctx, text(point), number%1000+1)
	case "ten_rows":
		return program.Select(ctx, text(ten), number+1, number+10)
	case "fetch":
		return program.Select(ctx, text(all), 1000)
	case "batch_insert":
		return 0, program.Batch(ctx, text(insert), each(func(row int) []any { return []any{row, fmt.Sprint("row ", row)} }))
	case "batch_update":
		return 0, program.Batch(ctx, text(update), each(func(row int) []any { return []any{1, row + 1} }))
	case "transaction":
		return program.Transaction(ctx, number)
	}
	return 0, fmt.Errorf("no operation is called %s", operation)
}

func each(values func(int) []any) [][]any {
	rows := make([][]any, batch)
	for row := range rows {
		rows[row] = values(row)
	}
	return rows
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, each := range info.Deps {
		if each.Path == module {
			return strings.TrimPrefix(each.Version, "v")
		}
	}
	return ""
}
