//! PostgreSQL's protocol 3.0: text as simple queries, prepared statements by the extended protocol, parameters as text
//! (bytes alone in binary format), results as text or, where the URL wants it and the type allows it, in binary format.

pub(crate) mod binary;
mod channel;
mod load;
mod login;
pub(crate) mod message;
mod reply;

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use postgres_protocol::{IsNull, message::frontend};

use crate::connection::one_by_one;
use crate::{
    BatchWay, Connection, Counters, Dialect, Done, Error, Family, Feature, Fetch, RowSink,
    RowsWanted, ServerUrl, Statement, Value,
    text::{numbered, plain},
    tls::Tls,
};
use binary::Column;
use channel::Channel;
use reply::{Reader, Until};

/// Requests of a pipeline before their answers are read: what the server says to them (some 20 bytes each) fits into the
/// socket's buffer, so that client and server never wait for each other.
const PIPELINE_REQUESTS_MAX: usize = 1000;

/// The portal and, for text, the statement without a name: the next Bind or Parse replaces it.
const UNNAMED: &str = "";

/// Connect and log in.
///
/// # Errors
/// Any [`Error`].
pub(crate) fn connect(url: &ServerUrl) -> Result<Box<dyn Connection>, Error> {
    if !url.metadata {
        return Err(Error::Unsupported(
            "metadata=off on PostgreSQL, which sends none with prepared statements and always some with text".to_owned(),
        ));
    }
    let tls = Tls::start(&url.tls, &url.host)?;
    let mut channel = Channel::connect(url)?;
    if let Some(tls) = tls {
        channel.encrypt(tls)?;
    }
    let parameters = login::log_in(&mut channel, url)?;
    channel.logged_in(url.limits)?;
    Ok(Box::new(Postgres {
        channel,
        reader: Reader::new(parameters),
        binary_results: url.binary_results,
        statements: 0,
        results: HashMap::new(),
        name: String::new(),
        text: String::new(),
    }))
}

/// The rows that a prepared statement returns.
struct Described {
    /// As the server described them.
    description: Vec<u8>,
    /// How to read them; `None`: all as text.
    columns: Option<Arc<[Column]>>,
}

struct Postgres {
    channel: Channel,
    reader: Reader,
    /// Results of prepared statements come in binary format where the type allows.
    binary_results: bool,
    /// How many were prepared; the last one's number.
    statements: u32,
    /// What prepared statements return, by number; none where that is nothing.
    results: HashMap<u32, Described>,
    /// A statement's name, and a value's text: kept for their allocations.
    name: String,
    text: String,
}

impl Postgres {
    fn reply(
        &mut self,
        until: Until,
        wanted: RowsWanted,
        rows: &mut dyn RowSink,
    ) -> Result<reply::Reply, Error> {
        self.reader.read(&mut self.channel, until, wanted, rows)
    }

    fn set_name(&mut self, id: u32) {
        self.name.clear();
        // Writing to a String cannot fail.
        let _ = write!(self.name, "s{id}");
    }

    fn put_bind(&mut self, parameters: &[Value]) -> Result<(), Error> {
        let (name, text) = (&self.name, &mut self.text);
        let columns = self.reader.columns.as_deref().unwrap_or_default();
        self.channel.put(|out| {
            frontend::bind(
                UNNAMED,
                name,
                binary::formats(parameters),
                parameters,
                |value, out| {
                    match value {
                        Value::Null => return Ok(IsNull::Yes),
                        Value::Bytes(bytes) => out.extend_from_slice(bytes),
                        _ => {
                            text.clear();
                            plain(value, text);
                            out.extend_from_slice(text.as_bytes());
                        }
                    }
                    Ok(IsNull::No)
                },
                columns.iter().map(|column| column.format()),
                out,
            )
            .map_err(|error| match error {
                frontend::BindError::Conversion(error) => std::io::Error::other(error),
                frontend::BindError::Serialization(error) => error,
            })
        })
    }

    fn put_execute(&mut self, rows_max: u32) -> Result<(), Error> {
        let rows_max = i32::try_from(rows_max).unwrap_or(i32::MAX);
        self.channel
            .put(|out| frontend::execute(UNNAMED, rows_max, out))
    }

    /// Let the server answer now, without an end of the transaction that it began by itself.
    fn flush(&mut self) -> Result<(), Error> {
        self.channel.put(|out| {
            frontend::flush(out);
            Ok(())
        })?;
        self.channel.send()
    }

    /// Run what is bound, all rows at once or, through the portal, some each round trip. Outside of a transaction a Sync would
    /// drop the portal, so the requests are flushed and the Sync comes last.
    fn run(&mut self, fetch: Fetch, rows: &mut dyn RowSink) -> Result<Done, Error> {
        let flushes = fetch.size > 0 && !self.reader.in_transaction;
        let mut done = Done::default();
        loop {
            self.put_execute(fetch.size)?;
            let until = if flushes {
                self.flush()?;
                Until::Commands(1)
            } else {
                reply::sync(&mut self.channel)?;
                Until::Ready
            };
            let reply = self.reply(until, fetch.rows, rows)?;
            if reply.copying {
                return Err(self.refuse_copy(true));
            }
            done += reply.done;
            if !reply.suspended || fetch.rows == RowsWanted::First {
                break;
            }
        }
        if flushes {
            reply::sync(&mut self.channel)?;
            self.reply(Until::Ready, fetch.rows, rows)?;
        }
        Ok(done)
    }

    fn pipeline(&mut self, statement: &Statement, rows: &[Vec<Value>]) -> Result<Done, Error> {
        let requests_max = if statement.columns == 0 {
            PIPELINE_REQUESTS_MAX
        } else {
            1
        };
        self.set_name(statement.id);
        let mut done = Done::default();
        let mut chunks = rows.chunks(requests_max).peekable();
        while let Some(chunk) = chunks.next() {
            for parameters in chunk {
                self.put_bind(parameters)?;
                self.put_execute(0)?;
            }
            let until = if chunks.peek().is_some() {
                self.flush()?;
                Until::Commands(chunk.len())
            } else {
                reply::sync(&mut self.channel)?;
                Until::Ready
            };
            let reply = self.reply(until, RowsWanted::All, &mut ())?;
            if reply.copying && chunk.len() > 1 {
                // The server refuses the requests behind it, and how often it will be ready again nobody can tell.
                return Err(Error::Protocol("COPY FROM STDIN in a pipeline".to_owned()));
            }
            if reply.copying {
                return Err(self.refuse_copy(true));
            }
            done += reply.done;
        }
        Ok(done)
    }
}

impl Connection for Postgres {
    fn family(&self) -> Family {
        Family::Postgres
    }

    fn dialect(&self) -> Dialect {
        Dialect {
            family: Family::Postgres,
            backslash_escapes: self.reader.parameters.backslash_escapes,
        }
    }

    fn server_version(&self) -> &str {
        &self.reader.parameters.server_version
    }

    fn counters(&self) -> Counters {
        self.channel.counters()
    }

    fn supports(&self, feature: Feature) -> bool {
        feature == Feature::Pipeline
    }

    fn query(&mut self, sql: &str, fetch: Fetch, rows: &mut dyn RowSink) -> Result<Done, Error> {
        if fetch.size > 0 {
            self.name.clear();
            self.channel
                .put(|out| frontend::parse(UNNAMED, sql, [], out))?;
            self.put_bind(&[])?;
            return self.run(fetch, rows);
        }
        self.channel.put(|out| frontend::query(sql, out))?;
        self.channel.send()?;
        let reply = self.reply(Until::Ready, fetch.rows, rows)?;
        if reply.copying {
            return Err(self.refuse_copy(false));
        }
        Ok(reply.done)
    }

    fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.prepare_typed(sql, &[])
    }

    fn prepare_typed(&mut self, sql: &str, types: &[u32]) -> Result<Statement, Error> {
        let id = self.statements + 1;
        self.set_name(id);
        let name = &self.name;
        let sql = numbered(self.dialect(), sql);
        self.channel
            .put(|out| frontend::parse(name, &sql, types.iter().copied(), out))?;
        self.channel
            .put(|out| frontend::describe(b'S', name, out))?;
        reply::sync(&mut self.channel)?;
        let reply = self.reply(Until::Ready, RowsWanted::All, &mut ())?;
        self.statements = id;
        let mut columns = Vec::new();
        if !reply.description.is_empty() {
            let description = reply.description;
            message::columns(&description, |column| columns.push(Column::of(column.kind)))?;
            let described = Described {
                description,
                columns: self.binary_results.then(|| columns.as_slice().into()),
            };
            self.results.insert(id, described);
        }
        Ok(Statement {
            id,
            parameters: reply.parameters.unwrap_or_default(),
            columns: columns.len() as u16,
        })
    }

    fn execute(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        fetch: Fetch,
        rows: &mut dyn RowSink,
    ) -> Result<Done, Error> {
        statement.check(parameters)?;
        self.set_name(statement.id);
        if let Some(described) = self.results.get(&statement.id) {
            message::tell(&described.description, rows)?;
            self.reader.columns.clone_from(&described.columns);
        }
        let done = match self.put_bind(parameters) {
            Ok(()) => self.run(fetch, rows),
            Err(error) => Err(error),
        };
        self.reader.columns = None;
        done
    }

    fn execute_batch(
        &mut self,
        statement: &Statement,
        rows: &[Vec<Value>],
        way: BatchWay,
    ) -> Result<Done, Error> {
        for parameters in rows {
            statement.check(parameters)?;
        }
        match way {
            BatchWay::Pipeline => self.pipeline(statement, rows),
            BatchWay::Single => one_by_one(self, statement, rows),
            BatchWay::Bulk => Err(Error::Unsupported(
                "bulk execution on PostgreSQL: use a pipeline".to_owned(),
            )),
        }
    }

    fn close(&mut self, statement: Statement) -> Result<(), Error> {
        self.results.remove(&statement.id);
        self.set_name(statement.id);
        let name = &self.name;
        self.channel.put(|out| frontend::close(b'S', name, out))?;
        reply::sync(&mut self.channel)?;
        self.reply(Until::Ready, RowsWanted::All, &mut ())?;
        Ok(())
    }

    fn reset(&mut self) -> Result<Done, Error> {
        let done = self.query("DISCARD ALL", Fetch::ALL, &mut ())?;
        self.results.clear();
        Ok(done)
    }

    fn load(
        &mut self,
        table: &str,
        columns: &[&str],
        rows: &mut dyn Iterator<Item = Vec<Value>>,
    ) -> Result<u64, Error> {
        self.copy_in(table, columns, rows)
    }
}

impl Drop for Postgres {
    /// Tell the server, so that it does not log a lost connection; one that is lost already has nobody to tell.
    fn drop(&mut self) {
        let _ = self.channel.put(|out| {
            frontend::terminate(out);
            Ok(())
        });
        let _ = self.channel.send();
    }
}
