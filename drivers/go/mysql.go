package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
)

type mysqlProgram struct {
	address  *url.URL
	settings Settings
	pool     *sql.DB
	kept     map[string]*sql.Stmt
}

func newMysql(text string, settings Settings) (*mysqlProgram, error) {
	address, err := url.Parse(text)
	return &mysqlProgram{address: address, settings: settings, kept: map[string]*sql.Stmt{}}, err
}

// open makes a pool of one connection with the options of the settings and these.
func (p *mysqlProgram) open(more map[string]string) (*sql.DB, error) {
	password, _ := p.address.User.Password()
	dsn := fmt.Sprintf("%s:%s@tcp(%s)%s?", p.address.User.Username(), password, p.address.Host, p.address.Path)
	for _, options := range []map[string]string{p.settings.Options, more} {
		for name, value := range options {
			dsn += name + "=" + url.QueryEscape(value) + "&"
		}
	}
	config, err := mysql.ParseDSN(strings.TrimRight(dsn, "?&"))
	if err != nil {
		return nil, err
	}
	if len(config.Params) > 0 {
		// What the driver does not know becomes a SET of a server's variable.
		for name := range config.Params {
			if !strings.HasPrefix(name, "transaction_") {
				return nil, fmt.Errorf("the driver has no option %s", name)
			}
		}
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(1)
	return pool, nil
}

func (p *mysqlProgram) Open(ctx context.Context) (err error) {
	if p.pool, err = p.open(nil); err != nil {
		return err
	}
	conn, err := p.pool.Conn(ctx)
	if err != nil {
		return err
	}
	return conn.Close() // it goes back to the pool
}

func (p *mysqlProgram) Close(context.Context) error {
	for _, each := range p.kept {
		each.Close()
	}
	return p.pool.Close()
}

func (p *mysqlProgram) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	if p.kept[text] == nil {
		made, err := p.pool.PrepareContext(ctx, text)
		if err != nil {
			return nil, err
		}
		p.kept[text] = made
	}
	return p.kept[text], nil
}

func (p *mysqlProgram) Select(ctx context.Context, text string, arguments ...any) (int64, error) {
	if p.settings.Use["statements"] == "kept" {
		statement, err := p.statement(ctx, text)
		if err != nil {
			return 0, err
		}
		return counted(statement.QueryContext(ctx, arguments...))
	}
	return counted(p.pool.QueryContext(ctx, text, arguments...))
}

func counted(rows *sql.Rows, err error) (int64, error) {
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

// Batch: database/sql has none, so an application writes a loop, or joins the rows of an INSERT itself.
func (p *mysqlProgram) Batch(ctx context.Context, text string, rows [][]any) error {
	head, values, isInsert := strings.Cut(text, "VALUES ")
	if p.settings.Use["batch"] == "joined" && isInsert {
		var all []any
		for _, row := range rows {
			all = append(all, row...)
		}
		joined := head + "VALUES " + strings.TrimSuffix(strings.Repeat(values+", ", len(rows)), ", ")
		_, err := p.pool.ExecContext(ctx, joined, all...)
		return err
	}
	for _, row := range rows {
		if p.settings.Use["statements"] == "kept" {
			statement, err := p.statement(ctx, text)
			if err != nil {
				return err
			}
			if _, err := statement.ExecContext(ctx, row...); err != nil {
				return err
			}
		} else if _, err := p.pool.ExecContext(ctx, text, row...); err != nil {
			return err
		}
	}
	return nil
}

func (p *mysqlProgram) Transaction(ctx context.Context, number int) (int64, error) {
	if p.settings.Use["statements"] == "kept" {
		// The transaction takes the only connection of the pool.
		for _, text := range []string{point, update, insert} {
			if _, err := p.statement(ctx, text); err != nil {
				return 0, err
			}
		}
	}
	var options sql.TxOptions
	if p.settings.Use["isolation"] == "read committed" {
		options.Isolation = sql.LevelReadCommitted
	}
	tx, err := p.pool.BeginTx(ctx, &options)
	if err != nil {
		return 0, err
	}
	id := number%1000 + 1
	var found int64
	if p.settings.Use["statements"] == "kept" {
		if found, err = counted(tx.StmtContext(ctx, p.kept[point]).QueryContext(ctx, id)); err == nil {
			if _, err = tx.StmtContext(ctx, p.kept[update]).ExecContext(ctx, 1, id); err == nil {
				_, err = tx.StmtContext(ctx, p.kept[insert]).ExecContext(ctx, number, fmt.Sprint("row ", number))
			}
		}
	} else if found, err = counted(tx.QueryContext(ctx, point, id)); err == nil {
		if _, err = tx.ExecContext(ctx, update, 1, id); err == nil {
			_, err = tx.ExecContext(ctx, insert, number, fmt.Sprint("row ", number))
		}
	}
	if err != nil {
		return 0, err
	}
	return found, tx.Commit()
}
