package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func (p *pgxProgram) Check(ctx context.Context, name string) error {
	conn, err := p.connect(ctx)
	if name == "tls_refused" {
		// Its options ask for TLS.
		if err == nil {
			return errors.Join(errors.New("it connected without TLS, which it was to require"), conn.Close(ctx))
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	switch name {
	case "connect":
		return pgxOne(ctx, conn)
	case "prepared":
		return pgxPrepared(ctx, conn)
	case "batch":
		return pgxBatch(ctx, conn)
	case "error":
		return pgxError(ctx, conn)
	case "cancel":
		return p.cancel(ctx, conn)
	case "reconnect":
		return p.reconnect(ctx, conn)
	}
	return fmt.Errorf("no check is called %s", name)
}

func pgxOne(ctx context.Context, conn *pgx.Conn) error {
	var number int
	if err := conn.QueryRow(ctx, "SELECT 1").Scan(&number); err != nil {
		return err
	}
	return require(number == 1, "SELECT 1 is not 1")
}

func pgxPrepared(ctx context.Context, conn *pgx.Conn) error {
	data := []byte{0, 1, 255, 39, 92}
	text := "SELECT id, $1::text, $2::float8, $3::bytea, $4::int FROM upshift_drivers WHERE id = $5"
	for id := 1; id <= 20; id++ {
		var found int
		var said string
		var number float64
		var back []byte
		var nothing *int
		row := conn.QueryRow(ctx, text, "Grüße 'n \\ ?", 12.5, data, nil, id)
		if err := row.Scan(&found, &said, &number, &back, &nothing); err != nil {
			return err
		}
		right := found == id && said == "Grüße 'n \\ ?" && number == 12.5 && bytes.Equal(back, data) && nothing == nil
		if err := require(right, "other values came back"); err != nil {
			return err
		}
	}
	return nil
}

func pgxBatch(ctx context.Context, conn *pgx.Conn) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	var all pgx.Batch
	for row := range 10 {
		all.Queue(placeholders(insert, true), row, "batch")
	}
	if err := tx.SendBatch(ctx, &all).Close(); err != nil {
		return err
	}
	copied, err := tx.CopyFrom(ctx, pgx.Identifier{"upshift_drivers_added"}, []string{"k", "c"},
		pgx.CopyFromRows([][]any{{1, "one"}, {2, "two"}}))
	if err != nil {
		return err
	}
	return require(copied == 2, "not two rows copied")
}

func pgxError(ctx context.Context, conn *pgx.Conn) error {
	var known *pgconn.PgError
	_, err := conn.Exec(ctx, "SELECT nothing FROM nowhere WHERE id = $1", 1)
	if !errors.As(err, &known) || known.Code != "42P01" {
		return fmt.Errorf("not the server's error: %v", err)
	}
	return pgxOne(ctx, conn)
}

func (p *pgxProgram) cancel(ctx context.Context, conn *pgx.Conn) error {
	failed := make(chan error, 1)
	go func() {
		time.Sleep(500 * time.Millisecond)
		failed <- conn.PgConn().CancelRequest(ctx)
	}()
	var known *pgconn.PgError
	if _, err := conn.Exec(ctx, "SELECT pg_sleep(20)"); !errors.As(err, &known) || known.Code != "57014" {
		return fmt.Errorf("not the error that it was cancelled: %v", err)
	}
	if err := <-failed; err != nil {
		return err
	}
	return pgxOne(ctx, conn)
}

func (p *pgxProgram) reconnect(ctx context.Context, conn *pgx.Conn) error {
	other, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer other.Close(ctx)
	if _, err := other.Exec(ctx, "SELECT pg_terminate_backend($1)", conn.PgConn().PID()); err != nil {
		return err
	}
	if pgxOne(ctx, conn) == nil {
		return errors.New("the connection was not ended")
	}
	again, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer again.Close(ctx)
	return pgxOne(ctx, again)
}
