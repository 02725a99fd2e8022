package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-sql-driver/mysql"
)

func (p *mysqlProgram) Check(ctx context.Context, name string) error {
	switch name {
	case "connect":
		return p.ask(ctx)
	case "prepared":
		return p.with(nil, func(pool *sql.DB) error { return mysqlPrepared(ctx, pool) })
	case "batch":
		return p.with(nil, func(pool *sql.DB) error { return mysqlBatch(ctx, pool) })
	case "error":
		return p.with(nil, func(pool *sql.DB) error { return mysqlError(ctx, pool) })
	case "cancel":
		return p.with(nil, func(pool *sql.DB) error { return mysqlCancel(ctx, pool) })
	case "reconnect":
		return p.with(nil, func(pool *sql.DB) error { return p.reconnect(ctx, pool) })
	case "local_infile":
		more := map[string]string{"allowAllFiles": "true"}
		return p.with(more, func(pool *sql.DB) error { return mysqlInfile(ctx, pool) })
	case "tls_refused":
		// Its options ask for TLS.
		if err := p.ask(ctx); !errors.Is(err, mysql.ErrNoTLS) {
			return fmt.Errorf("not the error that there is no TLS: %v", err)
		}
		return nil
	}
	return fmt.Errorf("no check is called %s", name)
}

func (p *mysqlProgram) with(more map[string]string, what func(*sql.DB) error) error {
	pool, err := p.open(more)
	if err != nil {
		return err
	}
	defer pool.Close()
	return what(pool)
}

func (p *mysqlProgram) ask(ctx context.Context) error {
	return p.with(nil, func(pool *sql.DB) error { return one(ctx, pool) })
}

func one(ctx context.Context, pool *sql.DB) error {
	var number int
	if err := pool.QueryRowContext(ctx, "SELECT 1").Scan(&number); err != nil {
		return err
	}
	return require(number == 1, "SELECT 1 is not 1")
}

func mysqlPrepared(ctx context.Context, pool *sql.DB) error {
	statement, err := pool.PrepareContext(ctx, "SELECT id, ?, ?, ?, ? FROM upshift_drivers WHERE id = ?")
	if err != nil {
		return err
	}
	defer statement.Close()
	data := []byte{0, 1, 255, 39, 92}
	for id := 1; id <= 20; id++ {
		var found int
		var text string
		var number float64
		var back []byte
		var nothing sql.NullInt64
		row := statement.QueryRowContext(ctx, "Grüße 'n \\ ?", 12.5, data, nil, id)
		if err := row.Scan(&found, &text, &number, &back, &nothing); err != nil {
			return err
		}
		right := found == id && text == "Grüße 'n \\ ?" && number == 12.5 && bytes.Equal(back, data) && !nothing.Valid
		if err := require(right, "other values came back"); err != nil {
			return err
		}
	}
	return nil
}

func mysqlBatch(ctx context.Context, pool *sql.DB) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	done, err := tx.ExecContext(ctx, "INSERT INTO upshift_drivers_added (k, c) VALUES (?, ?), (?, ?)", 1, "a", 2, "b")
	if err != nil {
		return err
	}
	affected, err := done.RowsAffected()
	if err != nil {
		return err
	}
	return require(affected == 2, "not two rows")
}

func mysqlError(ctx context.Context, pool *sql.DB) error {
	var known *mysql.MySQLError
	_, err := pool.ExecContext(ctx, "SELECT nothing FROM nowhere WHERE id = ?", 1)
	if !errors.As(err, &known) || known.Number != 1146 {
		return fmt.Errorf("not the server's error: %v", err)
	}
	return one(ctx, pool)
}

func mysqlCancel(ctx context.Context, pool *sql.DB) error {
	bounded, stop := context.WithTimeout(ctx, 500*time.Millisecond)
	defer stop()
	began := time.Now()
	if _, err := pool.ExecContext(bounded, "SELECT SLEEP(20)"); err == nil {
		return errors.New("no error")
	}
	if time.Since(began) > 15*time.Second {
		return errors.New("it was not cancelled")
	}
	return one(ctx, pool)
}

func (p *mysqlProgram) reconnect(ctx context.Context, pool *sql.DB) error {
	var mine int
	if err := pool.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&mine); err != nil {
		return err
	}
	kill := func(other *sql.DB) error {
		_, err := other.ExecContext(ctx, fmt.Sprint("KILL ", mine))
		return err
	}
	if err := p.with(nil, kill); err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond)
	return one(ctx, pool)
}

func mysqlInfile(ctx context.Context, pool *sql.DB) error {
	file, err := os.CreateTemp("", "upshift")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err := file.WriteString("1\tone\n2\ttwo\n3\tthree\n"); err != nil {
		return err
	}
	load := "LOAD DATA LOCAL INFILE '" + file.Name() + "' INTO TABLE upshift_drivers_added (k, c)"
	done, err := pool.ExecContext(ctx, load)
	if err != nil {
		return err
	}
	affected, err := done.RowsAffected()
	if err != nil {
		return err
	}
	return require(affected == 3, "not three rows")
}
