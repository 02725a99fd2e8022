package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
)

type pgxProgram struct {
	address  *url.URL
	settings Settings
	conn     *pgx.Conn
}

func newPgx(text string, settings Settings) (*pgxProgram, error) {
	address, err := url.Parse(text)
	return &pgxProgram{address: address, settings: settings}, err
}

var pgxOptions = map[string]bool{
	"default_query_exec_mode": true, "statement_cache_capacity": true, "description_cache_capacity": true, "sslmode": true,
}

func (p *pgxProgram) connect(ctx context.Context) (*pgx.Conn, error) {
	address := *p.address
	values := url.Values{}
	for name, value := range p.settings.Options {
		// What the driver does not know becomes a variable of the server's.
		if !pgxOptions[name] {
			return nil, fmt.Errorf("the driver has no option %s", name)
		}
		values.Set(name, value)
	}
	address.RawQuery = values.Encode()
	return pgx.Connect(ctx, address.String())
}

func (p *pgxProgram) Open(ctx context.Context) (err error) {
	p.conn, err = p.connect(ctx)
	return err
}

func (p *pgxProgram) Close(ctx context.Context) error { return p.conn.Close(ctx) }

type querier interface {
	Query(ctx context.Context, sql string, arguments ...any) (pgx.Rows, error)
}

func pgxCounted(ctx context.Context, on querier, text string, arguments ...any) (int64, error) {
	rows, err := on.Query(ctx, text, arguments...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var found int64
	for rows.Next() {
		var id, k int
		var c, pad string
		if err := rows.Scan(&id, &k, &c, &pad); err != nil {
			return 0, err
		}
		found++
	}
	return found, rows.Err()
}

func (p *pgxProgram) Select(ctx context.Context, text string, arguments ...any) (int64, error) {
	return pgxCounted(ctx, p.conn, text, arguments...)
}

func (p *pgxProgram) Batch(ctx context.Context, text string, rows [][]any) error {
	if p.settings.Use["batch"] == "batch" {
		var all pgx.Batch
		for _, row := range rows {
			all.Queue(text, row...)
		}
		return p.conn.SendBatch(ctx, &all).Close()
	}
	for _, row := range rows {
		if _, err := p.conn.Exec(ctx, text, row...); err != nil {
			return err
		}
	}
	return nil
}

func (p *pgxProgram) Transaction(ctx context.Context, number int) (int64, error) {
	id := number%1000 + 1
	if p.settings.Use["batch"] == "batch" {
		return p.together(ctx, number, id)
	}
	tx, err := p.conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	found, err := pgxCounted(ctx, tx, placeholders(point, true), id)
	if err == nil {
		if _, err = tx.Exec(ctx, placeholders(update, true), 1, id); err == nil {
			_, err = tx.Exec(ctx, placeholders(insert, true), number, fmt.Sprint("row ", number))
		}
	}
	if err != nil {
		return 0, err
	}
	return found, tx.Commit(ctx)
}

// together sends a whole transaction at once: none of its statements needs what another one found.
func (p *pgxProgram) together(ctx context.Context, number, id int) (int64, error) {
	var all pgx.Batch
	var found int64
	all.Queue("BEGIN")
	all.Queue(placeholders(point, true), id).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			found++
		}
		return rows.Err()
	})
	all.Queue(placeholders(update, true), 1, id)
	all.Queue(placeholders(insert, true), number, fmt.Sprint("row ", number))
	all.Queue("COMMIT")
	err := p.conn.SendBatch(ctx, &all).Close()
	return found, err
}
