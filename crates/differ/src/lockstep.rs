//! Two servers that are asked the same: each request is sent to both before either's answer is read.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use crate::allow::Allowed;
use crate::answer::Answer;
use crate::compare::{self, Rule};
use crate::peer::{Peer, is_silence};
use crate::silence::{Came, Silence, now_s};
use crate::step::{CONNECTIONS, Step, What, shown};
use crate::witness::Witness;

/// How what differs begins where the patched server hung up or does not answer, and stock does: it counts though it does not come again.
pub const LOST: &str = "the patched server's connection is lost";

/// Whoever runs steps and sees whether the answers differ.
pub trait Servers {
    /// An empty database and new connections.
    ///
    /// # Errors
    /// A server that cannot be reached.
    fn fresh(&mut self) -> io::Result<()>;

    /// Run a step; what differs, if anything does.
    ///
    /// # Errors
    /// A server that cannot be reached any more.
    fn step(&mut self, step: &Step) -> io::Result<Option<String>>;
}

/// How the two are reached.
#[derive(Debug, Clone)]
pub struct Place {
    /// Stock's socket.
    pub stock: PathBuf,
    /// The patched server's.
    pub patched: PathBuf,
    /// The database that is made and dropped.
    pub database: String,
    /// Capabilities that the client wants.
    pub wanted: u32,
    /// Statements for each new connection.
    pub session: Vec<String>,
    /// Differences on purpose.
    pub allowed: Allowed,
}

/// What a connection's statements are, by how they are named: requests that execute one do not say it.
#[derive(Default)]
struct Texts {
    slots: HashMap<u32, String>,
    names: HashMap<String, String>,
}

impl Texts {
    fn note(&mut self, what: &What) {
        match what {
            What::Prepare(slot, sql) => {
                self.slots.insert(*slot, sql.clone());
            }
            What::Query(sql) => {
                if let Some((name, text)) = sql
                    .strip_prefix("PREPARE ")
                    .and_then(|rest| rest.split_once(" FROM "))
                {
                    self.names.insert(name.to_owned(), text.to_owned());
                }
            }
            _ => {}
        }
    }

    /// The request, and the statement that it executes.
    fn request(&self, what: &What) -> String {
        let executed = match what {
            What::Execute { slot, .. } => self.slots.get(slot),
            What::Query(sql) => sql
                .strip_prefix("EXECUTE ")
                .and_then(|rest| self.names.get(rest.split_whitespace().next()?)),
            _ => None,
        };
        let text = shown(what);
        executed.map_or(text.clone(), |sql| format!("{text}: {sql}"))
    }
}

/// Two servers.
pub struct Pair {
    place: Place,
    /// What clients want until the next episode.
    wanted: u32,
    /// By connection.
    texts: [Texts; CONNECTIONS],
    stock: Vec<Peer>,
    patched: Vec<Peer>,
    /// What they answered last.
    pub answers: (Answer, Answer),
    /// What stock said to SHOW WARNINGS after the last step; empty where it was not asked.
    pub warnings: Answer,
    /// Differences that the list allows.
    pub allowed: u64,
    /// The first connection that the patched server alone lost, in whichever run of the steps, and the request that it did not answer.
    pub lost: Option<(String, String)>,
    /// Requests that a server did not answer in time, in whichever run of the steps.
    pub silences: Vec<Silence>,
    /// None once the patched server alone never answered: nothing that it answers late makes up for it.
    witness: Option<Rc<Witness>>,
}

impl Pair {
    /// Nothing is connected before [`Servers::fresh`].
    #[must_use]
    pub fn new(place: Place) -> Self {
        let witness = Witness::new(&place.stock, &place.patched);
        Self {
            wanted: place.wanted,
            place,
            texts: Default::default(),
            stock: Vec::new(),
            patched: Vec::new(),
            answers: Default::default(),
            warnings: Answer::default(),
            allowed: 0,
            lost: None,
            silences: Vec::new(),
            witness: Some(Rc::new(witness)),
        }
    }

    /// Hang up: what the connections hold is let go, such as the locks of an open transaction.
    pub fn leave(&mut self) {
        self.stock.clear();
        self.patched.clear();
    }

    /// The database that is made and dropped by now.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.place.database
    }

    /// Leave the database to whoever hangs in it.
    pub fn leave_database(&mut self) {
        self.place.database.push('x');
    }

    /// The last request that a server never answered.
    pub fn unanswered(&mut self) -> Option<Silence> {
        let at = self.silences.iter().rposition(|each| !each.is_slow())?;
        Some(self.silences.remove(at))
    }

    /// From the next [`Servers::fresh`] on.
    pub fn want(&mut self, capabilities: u32) {
        self.place.wanted = capabilities;
    }

    /// Ask both on one of their connections.
    fn both<'a>(
        &mut self,
        on: usize,
        requests: impl Iterator<Item = &'a What> + Clone,
    ) -> (io::Result<()>, io::Result<()>) {
        let (stock, patched) = (&mut self.stock[on], &mut self.patched[on]);
        // Of a request that cannot be sent, no answer before it is left.
        self.answers.0.clear();
        self.answers.1.clear();
        let sent_s = now_s();
        let sent = (
            stock.send_ahead(requests.clone(), usize::MAX),
            patched.send_ahead(requests.clone(), usize::MAX),
        );
        let from_stock = sent.0.and_then(|()| stock.receive(&mut self.answers.0));
        let stock = stock.waited();
        let from_patched = sent.1.and_then(|()| patched.receive(&mut self.answers.1));
        let patched = patched.waited();
        if (stock.came, patched.came) != (Came::InTime, Came::InTime) {
            let silence = Silence {
                statement: self.request(on, requests),
                sent_s,
                stock,
                patched,
                evidence: self.witness.as_ref().map_or_else(Vec::new, |by| by.said()),
            };
            self.silences.push(silence);
            if patched.came == Came::Never && from_stock.is_ok() {
                self.witness = None;
            }
        }
        (from_stock, from_patched)
    }

    /// What is sent, with the statements that it executes.
    fn request<'a>(&self, on: usize, requests: impl Iterator<Item = &'a What>) -> String {
        let each = requests.map(|what| self.texts[on].request(what));
        each.collect::<Vec<_>>().join("\n")
    }

    /// Ask both, and compare. `warnings_of` is the request whose warnings are asked for.
    fn ask<'a>(
        &mut self,
        on: usize,
        requests: impl Iterator<Item = &'a What> + Clone,
        rule: Rule,
        warnings_of: Option<&str>,
    ) -> io::Result<Option<String>> {
        requests.clone().for_each(|what| self.texts[on].note(what));
        let said = self.both(on, requests.clone());
        match said {
            (Ok(()), Ok(())) => {
                let (stock, patched) = &self.answers;
                let found = compare::difference(stock, patched, rule);
                if found.is_some() {
                    let (list, request) = (&self.place.allowed, self.request(on, requests));
                    if list.holds(&request, stock, patched)
                        || warnings_of.is_some_and(|of| list.holds_warnings(of, stock, patched))
                    {
                        self.allowed += 1;
                        return Ok(None);
                    }
                }
                Ok(found)
            }
            (Ok(()), Err(error)) => {
                let what = format!("{LOST}: {}", plainly(&error));
                self.lose(&what, on, requests);
                Ok(Some(what))
            }
            (Err(error), Ok(())) => Ok(Some(format!(
                "stock's connection is lost: {}",
                plainly(&error)
            ))),
            (Err(stock), Err(patched)) if Ending::of(&stock) != Ending::of(&patched) => {
                let what = match Ending::of(&stock) {
                    Ending::Silence => format!("{LOST}: {patched}; stock does not answer"),
                    _ => format!(
                        "stock's connection is lost: {stock}; the patched server: {}",
                        plainly(&patched)
                    ),
                };
                if what.starts_with(LOST) {
                    self.lose(&what, on, requests);
                }
                Ok(Some(what))
            }
            (Err(error), Err(_)) if Ending::of(&error) == Ending::Silence => {
                let packets = self.answers.0.packets.len();
                let what = format!("neither server answers; stock sent {packets} packets");
                Err(io::Error::new(io::ErrorKind::TimedOut, what))
            }
            // Both hung up, as they may: a request that is too long. What they said before counts.
            (Err(_), Err(_)) => {
                let (stock, patched) = &self.answers;
                let found = compare::difference(stock, patched, rule);
                self.connect(on)?;
                Ok(found)
            }
        }
    }

    fn lose<'a>(&mut self, what: &str, on: usize, requests: impl Iterator<Item = &'a What>) {
        if self.lost.is_none() {
            self.lost = Some((what.to_owned(), self.request(on, requests)));
        }
    }

    fn connect(&mut self, on: usize) -> io::Result<()> {
        let stock = Peer::connect(&self.place.stock, self.wanted)?;
        let patched = Peer::connect(&self.place.patched, self.wanted).map_err(alone)?;
        if stock.agreed() != patched.agreed() {
            return Err(io::Error::other(format!(
                "the servers offer different capabilities: {:#x} and {:#x}",
                stock.agreed(),
                patched.agreed()
            )));
        }
        let watched = |peer: Peer| peer.watched(self.witness.clone());
        (self.stock[on], self.patched[on]) = (watched(stock), watched(patched));
        for sql in self.place.session.clone() {
            self.begin_with(on, &What::Query(sql))?;
        }
        let name = self.place.database.clone();
        self.begin_with(on, &What::Database(name))
    }

    /// Ask what no answer is compared of; it must be read all the same, or the next request gets it.
    fn begin_with(&mut self, on: usize, what: &What) -> io::Result<()> {
        let (stock, patched) = self.both(on, [what].into_iter());
        stock?;
        patched.map_err(alone)
    }
}

/// Whether SHOW WARNINGS is asked after this answer of stock's.
pub(crate) fn has_warnings(answer: &Answer) -> bool {
    (answer.warnings > 0 || answer.error != 0) && !compare::NAME_STATEMENTS.contains(&answer.error)
}

/// How a connection ended.
#[derive(PartialEq, Eq)]
enum Ending {
    /// No answer in time.
    Silence,
    /// What is not the protocol.
    Broken,
    /// The other side hung up.
    Lost,
}

impl Ending {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            _ if is_silence(error) => Self::Silence,
            io::ErrorKind::InvalidData => Self::Broken,
            _ => Self::Lost,
        }
    }
}

/// The error of a connection; silence has a text that speaks of another thing.
fn plainly(error: &io::Error) -> String {
    match is_silence(error) {
        true => "no answer".to_owned(),
        false => error.to_string(),
    }
}

/// Of no kind that tells that neither server answers.
fn alone(error: io::Error) -> io::Error {
    io::Error::other(format!(
        "the patched server alone fails: {}",
        plainly(&error)
    ))
}

impl Pair {
    fn begin(&mut self, wanted: u32) -> io::Result<()> {
        self.wanted = wanted;
        self.texts = Default::default();
        self.leave();
        let (place, name) = (&self.place, self.place.database.clone());
        let watched = |peer: Peer| peer.watched(self.witness.clone());
        for _ in 0..CONNECTIONS {
            let stock = Peer::connect(&place.stock, wanted)?;
            self.stock.push(watched(stock));
            let patched = Peer::connect(&place.patched, wanted).map_err(alone)?;
            self.patched.push(watched(patched));
        }
        for sql in [
            "SET lock_wait_timeout=20".to_owned(),
            format!("DROP DATABASE IF EXISTS {name}"),
            format!("CREATE DATABASE {name}"),
        ] {
            self.begin_with(0, &What::Query(sql.clone()))?;
            let (stock, patched) = (self.answers.0.error, self.answers.1.error);
            if stock != patched {
                let what = format!("{sql}: error {patched} in place of {stock}");
                return Err(alone(io::Error::other(what)));
            }
        }
        (0..CONNECTIONS).try_for_each(|on| self.connect(on))
    }
}

impl Servers for Pair {
    fn fresh(&mut self) -> io::Result<()> {
        self.begin(self.place.wanted)
    }

    fn step(&mut self, step: &Step) -> io::Result<Option<String>> {
        if let Some(wanted) = step.fresh {
            self.begin(wanted)?;
        }
        self.warnings.clear();
        let found = self.ask(step.on, step.requests(), step.rule(), None)?;
        if found.is_some() || !step.diagnose {
            return Ok(found);
        }
        if !has_warnings(&self.answers.0) {
            return Ok(None);
        }
        // What the step said stays for those who count.
        let kept = self.answers.clone();
        let warnings = What::Query("SHOW WARNINGS".to_owned());
        let of = self.request(step.on, step.requests());
        let shown = self.ask(step.on, [&warnings].into_iter(), Rule::Whole, Some(&of))?;
        self.warnings = std::mem::replace(&mut self.answers, kept).0;
        Ok(shown.map(|found| format!("SHOW WARNINGS after it: {found}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fakes, Says};
    use crate::random::is_hang;

    /// What comes of a request that the two answer so.
    fn asked(stock: fn() -> Says, patched: fn() -> Says) -> io::Result<Option<String>> {
        let answers = |says: fn() -> Says| {
            move |sql: &str| match sql.contains("this") {
                true => says(),
                false => Says::Fine,
            }
        };
        let fakes = Fakes::new(answers(stock), answers(patched));
        let mut pair = fakes.pair();
        pair.fresh()?;
        pair.step(&Step::query("test", "this"))
    }

    #[test]
    fn servers_that_hang_up_are_equal_only_when_they_said_the_same_before() {
        let one = || Says::Torn("one");
        assert_eq!(asked(one, one).expect("both are there"), None);
        let found = asked(one, || Says::Torn("two")).expect("both are there");
        assert!(found.is_some_and(|what| what.contains("one") && what.contains("two")));
        let found = asked(one, || Says::HangUp).expect("both are there");
        assert!(found.is_some());
    }

    #[test]
    fn show_warnings_may_differ_after_the_requests_that_the_list_names() {
        let answers = |text: &'static str| {
            move |sql: &str| match sql {
                _ if sql.contains("COUNT") => Says::Error(2),
                _ if sql.contains("SHOW WARNINGS") => Says::Row("Message", text),
                _ => Says::Fine,
            }
        };
        let fakes = Fakes::new(answers("'a' is no number"), answers("'b' is no number"));
        let named = |request: &str| {
            let list = format!("[[allow]]\npatch='a'\nwhy='b'\nrequest='{request}'\nwarnings=true");
            Place {
                allowed: toml::from_str(&list).expect("a list"),
                ..fakes.place.clone()
            }
        };
        for (request, allowed) in [("COUNT", 1), ("SHOW WARNINGS", 0)] {
            let mut pair = Pair::new(named(request));
            pair.fresh().expect("both are there");
            let mut step = Step::query("test", "SELECT COUNT(c)");
            step.diagnose = true;
            let found = pair.step(&step).expect("both are there");
            assert_eq!((found.is_none(), pair.allowed), (allowed == 1, allowed));
        }
    }

    #[test]
    fn a_server_that_hangs_up_and_one_that_does_not_answer_are_not_equal() {
        let found = asked(|| Says::Nothing, || Says::HangUp).expect("both are there");
        assert!(found.is_some_and(|what| what.contains(LOST)));
        let found = asked(|| Says::HangUp, || Says::Nothing).expect("both are there");
        assert!(found.is_some_and(|what| what.starts_with("stock's connection is lost")));
        let error = asked(|| Says::Nothing, || Says::Nothing).expect_err("neither answers");
        assert!(is_hang(&error));
    }

    #[test]
    fn a_session_that_cannot_begin_ends_the_run_and_leaves_no_answer_to_the_next_request() {
        let patched = |sql: &str| match sql.contains("timestamp") {
            true => Says::Nothing,
            false => Says::Fine,
        };
        let fakes = Fakes::new(|_| Says::Fine, patched);
        let place = Place {
            session: vec!["SET timestamp=1".to_owned()],
            ..fakes.place.clone()
        };
        let error = Pair::new(place).fresh().expect_err("it is not answered");
        assert!(error.to_string().contains("alone fails: no answer"));
    }

    #[test]
    fn a_patched_server_that_alone_makes_no_database_is_no_hang_of_both() {
        for (says, told) in [
            ((|| Says::Nothing) as fn() -> Says, "alone fails"),
            (|| Says::Error(2), "error 1026 in place of 0"),
        ] {
            let patched = move |sql: &str| match sql.contains("DROP DATABASE") {
                true => says(),
                false => Says::Fine,
            };
            let fakes = Fakes::new(|_| Says::Fine, patched);
            let error = fakes.pair().fresh().expect_err("it is refused");
            assert!(
                !is_hang(&error) && error.to_string().contains(told),
                "{error}"
            );
        }
    }
}
