//! Requests as they are sent, and what answers them.

use std::collections::HashMap;

use crate::param::{Param, kind};
use crate::peer::capability::QUERY_ATTRIBUTES;
use crate::step::What;

/// A statement number that no server gives out.
const NO_STATEMENT: u32 = 0x7FFF_FFFF;

#[derive(Debug, Default, Clone)]
pub(crate) struct Prepared {
    pub(crate) id: u32,
    pub(crate) parameters: usize,
    /// As announced by the execution before.
    pub(crate) types: Vec<[u8; 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    Nothing,
    One,
    Results,
    Prepared(u32),
    Rows,
}

/// The statements that a connection has prepared.
#[derive(Default)]
pub(crate) struct Slots(pub(crate) HashMap<u32, Prepared>);

impl Slots {
    /// Write a request's payload; what answers it.
    pub(crate) fn encode(&mut self, what: &What, agreed: u32, out: &mut Vec<u8>) -> Expect {
        let id = |slots: &HashMap<u32, Prepared>, slot: &u32| {
            let id = slots.get(slot).map_or(NO_STATEMENT, |found| found.id);
            id.to_le_bytes()
        };
        match what {
            What::Query(sql) => {
                out.push(0x03);
                if agreed & QUERY_ATTRIBUTES > 0 {
                    out.extend_from_slice(&[0, 1]);
                }
                out.extend_from_slice(sql.as_bytes());
                Expect::Results
            }
            What::Prepare(slot, sql) => {
                out.push(0x16);
                out.extend_from_slice(sql.as_bytes());
                self.0.remove(slot);
                Expect::Prepared(*slot)
            }
            What::Execute {
                slot,
                values,
                cursor,
                rebind,
            } => {
                out.push(0x17);
                out.extend_from_slice(&id(&self.0, slot));
                out.push(u8::from(*cursor));
                out.extend_from_slice(&1_u32.to_le_bytes());
                if let Some(prepared) = self.0.get_mut(slot) {
                    prepared.bind(values, *rebind, out);
                }
                Expect::Results
            }
            What::LongData(slot, at, data) => {
                out.push(0x18);
                out.extend_from_slice(&id(&self.0, slot));
                out.extend_from_slice(&at.to_le_bytes());
                out.extend_from_slice(data);
                Expect::Nothing
            }
            What::Fetch(slot, rows) => {
                out.push(0x1C);
                out.extend_from_slice(&id(&self.0, slot));
                out.extend_from_slice(&rows.to_le_bytes());
                Expect::Rows
            }
            What::ResetStatement(slot) => {
                out.push(0x1A);
                out.extend_from_slice(&id(&self.0, slot));
                Expect::One
            }
            What::Close(slot) => {
                out.push(0x19);
                out.extend_from_slice(&id(&self.0, slot));
                self.0.remove(slot);
                Expect::Nothing
            }
            What::Database(name) => {
                out.push(0x02);
                out.extend_from_slice(name.as_bytes());
                Expect::One
            }
            What::Ping => {
                out.push(0x0E);
                Expect::One
            }
            What::ResetConnection => {
                out.push(0x1F);
                self.0.clear();
                Expect::One
            }
            What::MultiStatements(on) => {
                out.extend_from_slice(&[0x1B, u8::from(!*on), 0]);
                Expect::One
            }
        }
    }
}

impl Prepared {
    fn bind(&mut self, values: &[Param], rebind: bool, out: &mut Vec<u8>) {
        if self.parameters == 0 {
            return;
        }
        let none = Param::Null(kind::NULL);
        let bound = || (0..self.parameters).map(|at| values.get(at).unwrap_or(&none));
        let mut nulls = vec![0_u8; self.parameters.div_ceil(8)];
        for (at, value) in bound().enumerate() {
            if matches!(value, Param::Null(_)) {
                nulls[at / 8] |= 1 << (at % 8);
            }
        }
        out.extend_from_slice(&nulls);
        let types: Vec<[u8; 2]> = bound().map(Param::announced).collect();
        let again = rebind || types != self.types;
        out.push(u8::from(again));
        if again {
            types.iter().for_each(|each| out.extend_from_slice(each));
            self.types = types;
        }
        bound().for_each(|value| value.write(out));
    }
}
