//! What an ask wants, and what came of it.

use crate::frame::{Reply, Want};
use crate::wire::{Reader, Unreadable, Writer};
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

pub(super) fn write_want(writer: &mut Writer, want: &Want) {
    match want {
        Want::Lend { need, ahead } => {
            writer.byte(0);
            writer.number(*need);
            writer.number(*ahead);
        }
        Want::Do { action, cost } | Want::Tell { action, cost } => {
            let place = ACTIONS.iter().position(|known| known == action).unwrap_or(0);
            writer.byte(if matches!(want, Want::Do { .. }) { 1 } else { 4 });
            writer.byte(u8::try_from(place).unwrap_or(0));
            writer.number(*cost);
        }
        Want::Look => writer.byte(2),
        Want::Forget => writer.byte(3),
        Want::Undo { of } => {
            writer.byte(5);
            writer.number(*of);
        }
    }
}

pub(super) fn read_want(reader: &mut Reader<'_>) -> Result<Want, Unreadable> {
    Ok(match reader.byte()? {
        0 => Want::Lend { need: reader.number()?, ahead: reader.number()? },
        kind @ (1 | 4) => {
            let action = *ACTIONS.get(usize::from(reader.byte()?)).ok_or(Unreadable)?;
            let cost = reader.number()?;
            if kind == 1 { Want::Do { action, cost } } else { Want::Tell { action, cost } }
        }
        2 => Want::Look,
        3 => Want::Forget,
        5 => Want::Undo { of: reader.number()? },
        _ => return Err(Unreadable),
    })
}

pub(super) fn write_reply(writer: &mut Writer, reply: &Reply) {
    match reply {
        Reply::Lent => writer.byte(0),
        Reply::Exhausted => writer.byte(1),
        Reply::Elsewhere => writer.byte(2),
        Reply::Seen(None) => writer.byte(3),
        Reply::Seen(Some((since, count))) => {
            writer.byte(4);
            writer.fixed(*since);
            writer.fixed(*count);
        }
        Reply::Done(verdict) => {
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
    }
}

pub(super) fn read_reply(reader: &mut Reader<'_>) -> Result<Reply, Unreadable> {
    Ok(match reader.byte()? {
        0 => Reply::Lent,
        1 => Reply::Exhausted,
        2 => Reply::Elsewhere,
        3 => Reply::Seen(None),
        4 => Reply::Seen(Some((reader.fixed()?, reader.fixed()?))),
        how @ 5..=7 => {
            let (available, remaining) = (reader.number()?, reader.number()?);
            let reset_after = Duration::from_nanos(reader.number()?);
            let wait = Duration::from_nanos(reader.number()?);
            let outcome = match how {
                5 => Outcome::Admitted,
                6 => Outcome::Refused { retry_after: None },
                _ => Outcome::Refused { retry_after: Some(wait) },
            };
            Reply::Done(Verdict { outcome, available, remaining, reset_after })
        }
        _ => return Err(Unreadable),
    })
}
