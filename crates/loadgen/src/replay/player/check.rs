//! Whether a server takes the statements of a trace, before the first of them is sent.

use wire::passive::Verb;
use wire::{Connection, Error, Fetch};

use crate::failure::Failure;
use crate::replay::tape::Event;
use crate::replay::trace::Trace;
use crate::session::StatementSpec;

/// Prepare each statement of a trace.
///
/// # Errors
/// One that the server refuses and that it should take; a connection that is lost; a file that has changed since it was opened.
pub(super) fn check(
    trace: &Trace,
    statements: &[StatementSpec],
    connection: &mut dyn Connection,
) -> anyhow::Result<()> {
    let mut at = None;
    // Most servers refuse nothing, and then nobody has to read the trace for it.
    let mut known = None;
    for (place, spec) in statements.iter().enumerate() {
        if !spec.is_preparable() {
            continue;
        }
        if let Some(sql) = spec.use_sql()
            && at != spec.database
        {
            at.clone_from(&spec.database);
            let went = connection.query(&sql, Fetch::ALL, &mut ());
            went.map_err(|error| refusal(trace, spec, error))?;
        }
        match connection.prepare_typed(&spec.sql, &spec.types) {
            Ok(statement) => connection.close(statement)?,
            Err(error) => {
                let known = match &mut known {
                    Some(known) => known,
                    none => none.insert(Known::read(trace)?),
                };
                if !known.excuses(place, &error) {
                    return Err(refusal(trace, spec, error));
                }
            }
        }
    }
    Ok(())
}

fn refusal(trace: &Trace, spec: &StatementSpec, error: Error) -> anyhow::Error {
    let Error::Server { message, .. } = error else {
        return error.into();
    };
    let message = format!("the server refuses {} ({}): {message}", spec.name, spec.sql);
    let hint = format!(
        "make the tables and rows that the recording of {} began with: a copy of that database, or the same prepare",
        trace.meta.workload
    );
    Failure::new(message, hint).into()
}

/// What the recorded server made of the statements.
struct Known {
    /// By statement: it was taken at least once.
    taken: Vec<bool>,
    /// A statement of the trace makes tables, maybe.
    has_ddl: bool,
}

impl Known {
    fn read(trace: &Trace) -> anyhow::Result<Self> {
        let (meta, family) = (&trace.meta, trace.meta.family());
        let mut taken = vec![false; meta.statements.len()];
        let mut reader = trace.reader()?;
        while let Some(recorded) = reader.next_transaction()? {
            let mut events = recorded.events()?;
            if recorded.refused {
                // The refused request is its last.
                events.pop();
            }
            for event in events {
                if let Event::Statement { id, .. } | Event::Batch { id, .. } = event {
                    taken[usize::from(id.0)] = true;
                }
            }
        }
        let has_ddl = meta.statements.iter().any(|one| {
            let several = one.way.is_some_and(|way| way.several);
            // Of several statements the verb is the first one's.
            wire::sql::verb(family, one.sql.as_bytes()) == Verb::Ddl
                || several && one.sql.to_ascii_uppercase().contains("CREATE")
        });
        Ok(Self { taken, has_ddl })
    }

    /// Whether a statement may be sent all the same.
    fn excuses(&self, place: usize, error: &Error) -> bool {
        let Error::Server { code, sqlstate, .. } = error else {
            return false;
        };
        match (*code, sqlstate.as_str()) {
            // MySQL's protocol of prepared statements does not have it; text has.
            (1295, _) => true,
            // The trace may make the table before it comes to the statement.
            (1146, _) | (0, "42P01") if self.has_ddl => true,
            _ => !self.taken[place],
        }
    }
}

#[cfg(test)]
mod tests;
