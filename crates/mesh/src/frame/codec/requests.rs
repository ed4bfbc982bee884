//! Requests to owners and their replies as bytes.

use super::holdings::{read_shares, write_shares};
use crate::frame::wire::{Unreadable, WireReader, WireWriter};
use crate::frame::{OwnerReply, Want};
use hivemind_core::algorithm::Action;
use hivemind_core::store::{Outcome, Verdict};
use std::time::Duration;

pub(super) const ACTIONS: [Action; 6] = [
    Action::Spend { count_refusal: false },
    Action::Spend { count_refusal: true },
    Action::Peek,
    Action::Refund,
    Action::Debit,
    Action::Count,
];

/// An inspection is encoded as an outcome request for a peek, which is never sent otherwise: a version that
/// does not know inspections answers with its verdict, and never mistakes it for a change of a counter.
const SURVEY: Action = Action::Peek;

pub(super) fn write_want(writer: &mut WireWriter, want: &Want) {
    match want {
        Want::Grant { need, ahead } => {
            writer.byte(0);
            writer.number(*need);
            writer.number(*ahead);
        }
        Want::Do { action, cost } => write_action(writer, 1, *action, *cost),
        Want::Outcome { action, cost } => write_action(writer, 4, *action, *cost),
        Want::Inspect => write_action(writer, 4, SURVEY, 0),
        Want::Look => writer.byte(2),
        Want::Forget => writer.byte(3),
        Want::Undo { of } => {
            writer.byte(5);
            writer.number(*of);
        }
    }
}

pub(super) fn read_want(reader: &mut WireReader<'_>) -> Result<Want, Unreadable> {
    Ok(match reader.byte()? {
        0 => Want::Grant { need: reader.number()?, ahead: reader.number()? },
        kind @ (1 | 4) => {
            let action = *ACTIONS.get(usize::from(reader.byte()?)).ok_or(Unreadable)?;
            let cost = reader.number()?;
            match (kind, action) {
                (1, _) => Want::Do { action, cost },
                (_, SURVEY) => Want::Inspect,
                _ => Want::Outcome { action, cost },
            }
        }
        2 => Want::Look,
        3 => Want::Forget,
        5 => Want::Undo { of: reader.number()? },
        _ => return Err(Unreadable),
    })
}

fn write_action(writer: &mut WireWriter, kind: u8, action: Action, cost: u64) {
    let place = ACTIONS.iter().position(|known| *known == action).unwrap_or(0);
    writer.byte(kind);
    writer.byte(u8::try_from(place).unwrap_or(0));
    writer.number(cost);
}

pub(super) fn write_reply(writer: &mut WireWriter, reply: &OwnerReply) {
    match reply {
        OwnerReply::Granted => writer.byte(0),
        OwnerReply::Exhausted => writer.byte(1),
        OwnerReply::Elsewhere => writer.byte(2),
        OwnerReply::Seen(None) => writer.byte(3),
        OwnerReply::Seen(Some((since, count))) => {
            writer.byte(4);
            writer.fixed(*since);
            writer.fixed(*count);
        }
        OwnerReply::Done(verdict) => write_verdict(writer, verdict),
        OwnerReply::Inspected(verdict, shares) => {
            writer.byte(8);
            write_verdict(writer, verdict);
            write_shares(writer, shares);
        }
    }
}

fn write_verdict(writer: &mut WireWriter, verdict: &Verdict) {
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let (how, wait) = match verdict.outcome {
        Outcome::Admitted => (5, 0),
        Outcome::Refused { retry_after: None } => (6, 0),
        Outcome::Refused { retry_after: Some(wait) } => (7, nanos(wait)),
    };
    writer.byte(how);
    writer.number(verdict.available);
    writer.number(verdict.remaining);
    writer.number(nanos(verdict.reset_after));
    writer.number(wait);
}

pub(super) fn read_reply(reader: &mut WireReader<'_>) -> Result<OwnerReply, Unreadable> {
    Ok(match reader.byte()? {
        0 => OwnerReply::Granted,
        1 => OwnerReply::Exhausted,
        2 => OwnerReply::Elsewhere,
        3 => OwnerReply::Seen(None),
        4 => OwnerReply::Seen(Some((reader.fixed()?, reader.fixed()?))),
        8 => {
            let how = reader.byte()?;
            OwnerReply::Inspected(read_verdict(how, reader)?, read_shares(reader)?)
        }
        how => OwnerReply::Done(read_verdict(how, reader)?),
    })
}

fn read_verdict(how: u8, reader: &mut WireReader<'_>) -> Result<Verdict, Unreadable> {
    if !(5..=7).contains(&how) {
        return Err(Unreadable);
    }
    let (available, remaining) = (reader.number()?, reader.number()?);
    let reset_after = Duration::from_nanos(reader.number()?);
    let wait = Duration::from_nanos(reader.number()?);
    let outcome = match how {
        5 => Outcome::Admitted,
        6 => Outcome::Refused { retry_after: None },
        _ => Outcome::Refused { retry_after: Some(wait) },
    };
    Ok(Verdict { outcome, available, remaining, reset_after })
}
