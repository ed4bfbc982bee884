//! A request: tried on what this node has. What it has not and the owner may have is asked
//! for, once for all that wait; nothing is spent before everything fits.

use super::held::ends;
use super::remote::{Stage, Unseen};
use super::{Decided, Node, Ticket, Waiting};
use crate::batch::{self, Known, Owed, Trial};
use crate::book::Book;
use crate::codec::tag_at;
use crate::dictionary::Subject;
use crate::frame::{Item, Place, Report, Want};
use crate::options::{Consistency, OnUnreachable};
use crate::page::{Page, Regime, Side};
use crate::purse::signed;
use crate::shelf::NoPage;
use hivemind_core::algorithm::Action;
use hivemind_core::store::{Charge, Context, Key, LocalStore, Mode, Op, Parts, Verdict, Verdicts};
use hivemind_core::{Cost, Limit, Rate, Timestamp};
use smallvec::SmallVec;

/// How far to go for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Try {
    /// Only with what is here.
    Probe,
    /// By asking, if need be.
    Ask,
    /// With what is here, for there is no more time.
    Last,
}

/// What came of trying a batch.
pub(super) enum Attempt {
    Done(Verdicts),
    /// It cannot be decided with what is here.
    WouldWait,
    /// Asks are under way.
    Wait(Stage),
}

/// What is known of a charge's counter, and where that is kept.
enum Found {
    Here(Known),
    /// The owner decides it, and its state has not been seen.
    Unseen(Unseen),
}

impl Node {
    /// Decides all charges of one request together.
    pub fn decide(&mut self, batch: &[Charge<'_>], context: Context) -> Decided {
        if self.options.consistency == Consistency::Local {
            return Decided::Now(self.local.0.decide_now(batch, context));
        }
        if let [charge] = batch
            && let Some(verdict) = self.decide_held(charge, context)
        {
            return Decided::Now(Verdicts::of_one(true, verdict));
        }
        self.shelf.books.see(context.now);
        let owed = Owed::list(batch);
        for charge in &owed {
            if charge.op == Op::Spend
                && let Some(mut book) = self.shelf.books.get_mut(&charge.key)
            {
                book.demand.note(charge.cost, context.now);
            }
        }
        let ticket = Ticket(self.number());
        match self.attempt(ticket, &owed, context, &Stage::Fresh, Try::Ask) {
            Attempt::Done(verdicts) => Decided::Now(verdicts),
            Attempt::WouldWait => Decided::Later(ticket),
            Attempt::Wait(stage) => {
                let timeout = context.now.saturating_add(self.options.ask_timeout);
                let until = context.deadline.map_or(timeout, |deadline| deadline.min(timeout));
                self.waiting.insert(ticket, Waiting { batch: owed.into_vec(), context, until, stage });
                self.flush_urgent(context.now);
                Decided::Later(ticket)
            }
        }
    }

    /// Decides them if that needs no waiting. If not, nothing was recorded and nobody asked.
    pub fn try_decide(&mut self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        if self.options.consistency == Consistency::Local {
            return Some(self.local.0.decide_now(batch, context));
        }
        if let [charge] = batch
            && let Some(verdict) = self.decide_held(charge, context)
        {
            return Some(Verdicts::of_one(true, verdict));
        }
        self.shelf.books.see(context.now);
        let owed = Owed::list(batch);
        match self.attempt(Ticket(0), &owed, context, &Stage::Fresh, Try::Probe) {
            Attempt::Done(verdicts) => Some(verdicts),
            Attempt::Wait(_) | Attempt::WouldWait => None,
        }
    }

    fn decide_held(&self, charge: &Charge<'_>, context: Context) -> Option<Verdict> {
        self.shelf.books.parts().decide_held(charge, context, self.options.consistency)
    }

    /// Forgets one counter, here and at its owner.
    pub fn forget(&mut self, key: Key, now: Timestamp) {
        self.local.0.forget_now(key);
        let Some(mut book) = self.shelf.books.remove(&key) else { return };
        let limit = book.limit;
        if let Some(Page { tag, view, side: Side::Purse(_), .. }) = book.pages.pop()
            && let Some(owner) = view.owner(key)
        {
            let place = Place { subject: Subject { key, limit }, view: view.id(), tag };
            let (id, to) = (self.number(), owner.id.clone());
            let item = Item::Ask { id, place, report: Report::default(), want: Want::Forget };
            self.urge(&to, item);
            self.flush_urgent(now);
        }
    }

    /// Tries a batch. Its counters are held still meanwhile: whoever decides on one of them waits for the node.
    pub(super) fn attempt(
        &mut self,
        ticket: Ticket,
        batch: &[Owed],
        context: Context,
        stage: &Stage,
        how: Try,
    ) -> Attempt {
        let attempt = self.attempt_still(ticket, batch, context, stage, how);
        for charge in batch {
            if let Some(mut book) = self.shelf.books.get_mut(&charge.key) {
                book.still = false;
            }
        }
        attempt
    }

    fn attempt_still(
        &mut self,
        ticket: Ticket,
        batch: &[Owed],
        context: Context,
        stage: &Stage,
        how: Try,
    ) -> Attempt {
        let last = how == Try::Last;
        let mut known: SmallVec<[Known; 2]> = SmallVec::new();
        let mut unseen: SmallVec<[Unseen; 2]> = SmallVec::new();
        for charge in batch {
            match self.find(charge, context.now, stage, last) {
                Ok(Found::Here(here)) => known.push(here),
                Ok(Found::Unseen(counter)) => {
                    unseen.push(counter);
                    known.push(nothing(charge, context.now));
                }
                Err(NoPage::Full) => return Attempt::Done(self.decide_alone(batch, context, None)),
                Err(NoPage::NoView) => {
                    return Attempt::Done(self.decide_alone(
                        batch,
                        context,
                        Some(self.options.on_unreachable),
                    ));
                }
            }
        }
        if how == Try::Probe && !unseen.is_empty() {
            return Attempt::WouldWait;
        }
        if !unseen.is_empty() {
            return Attempt::Wait(self.ask_remote(ticket, batch, &unseen, context));
        }
        let trials = batch::try_all(batch, &known, context);
        let refuses = |(charge, trial): (&Owed, &Trial)| {
            charge.op != Op::Debit
                && charge.mode == Mode::Enforce
                && !trial.verdict.is_admitted()
                && trial.lacks == 0
        };
        let doomed = batch.iter().zip(&trials).any(refuses);
        if how == Try::Probe {
            let lacks = !doomed && trials.iter().any(|trial| trial.lacks > 0);
            if lacks || self.could_recall(batch, &trials, context) || self.needs_owner(batch, &trials) {
                return Attempt::WouldWait;
            }
        }
        if how == Try::Ask && !doomed && self.ask_for_rights(ticket, batch, &trials, context) {
            return Attempt::Wait(Stage::Fresh);
        }
        if how == Try::Ask && self.recall_for(ticket, batch, &trials, context) {
            return Attempt::Wait(Stage::Fresh);
        }
        self.conclude(ticket, batch, &known, &trials, context)
    }

    fn find(&mut self, charge: &Owed, now: Timestamp, stage: &Stage, last: bool) -> Result<Found, NoPage> {
        let Self { shelf, council, options, peers, .. } = self;
        let limit = &charge.limit;
        let tag = shelf.tag(council, options, (charge.key, limit), now);
        let mut book = shelf.open(council, options, (charge.key, limit, tag), now)?;
        book.own = true;
        // What is found here holds until the batch is settled.
        book.still = true;
        let page = book.page(tag).ok_or(NoPage::NoView)?;
        let members = page.view.members().len();
        let regime = Regime::of(limit, members, options);
        let eventual = options.consistency == Consistency::Eventual;
        let ends = ends(limit, tag, now);
        Ok(match &page.side {
            Side::Till(till) if eventual => {
                let can = i64::from(limit.burst()).saturating_sub(signed(till.spent()));
                Found::Here(Known::Rights { can, left: 0, own: 0, ends, final_word: true })
            }
            Side::Till(till) => {
                let moment = page.moment_of(limit, options, now);
                let counts_refusals = regime == Regime::Decides;
                Found::Here(Known::Counter {
                    state: till.state,
                    limit: till.room(limit),
                    moment,
                    counts_refusals,
                })
            }
            Side::Purse(purse) => {
                let owner = page.view.owner(charge.key);
                let heard = owner.is_some_and(|owner| peers.is_heard(owner, now));
                if regime == Regime::Decides && heard && !eventual {
                    return Ok(match stage.seen(charge.key) {
                        Some(seen) => {
                            let moment = now;
                            Found::Here(Known::Counter {
                                state: seen.0,
                                limit: *limit,
                                moment,
                                counts_refusals: true,
                            })
                        }
                        None if last => Found::Here(nothing(charge, now)),
                        None => Found::Unseen(Unseen { key: charge.key, limit: *limit, tag }),
                    });
                }
                let spent = signed(purse.spent());
                let can = if eventual {
                    i64::from(limit.burst()).saturating_sub(spent).saturating_sub(signed(purse.others))
                } else if heard {
                    // Whatever an owner grants, no node alone admits more than the limit.
                    let full = i64::from(limit.burst());
                    let most =
                        if matches!(limit, Limit::TokenBucket(_)) { full } else { full - purse.net_spent() };
                    purse.unspent().min(most)
                } else {
                    let even = u64::from(limit.burst()).div_ceil(members.max(1) as u64);
                    match options.on_unreachable {
                        OnUnreachable::Share => purse.unspent().max(signed(even).saturating_sub(spent)),
                        OnUnreachable::Refuse => purse.unspent(),
                        OnUnreachable::Admit => i64::MAX / 2,
                    }
                };
                let exhausted = purse.is_exhausted(charge.cost, now);
                let bounded = options.consistency == Consistency::Bounded;
                let final_word = last || !heard || exhausted || bounded || eventual;
                let left = if heard { purse.left } else { 0 };
                Found::Here(Known::Rights { can, left, own: purse.spent(), ends, final_word })
            }
        })
    }

    /// Whether something of a batch is for an owner to do, so that it cannot be done without a word.
    fn needs_owner(&mut self, batch: &[Owed], trials: &[Trial]) -> bool {
        let here = |charge: &Owed| {
            let has_till = |book: &Book| book.pages.iter().any(|page| matches!(page.side, Side::Till(_)));
            self.shelf.books.look(&charge.key, has_till).unwrap_or(false)
        };
        let is_counter = |trial: &Trial| matches!(trial.after, Known::Counter { .. });
        let gives = |charge: &Owed| matches!(charge.op, Op::Refund | Op::Debit);
        batch.iter().zip(trials).any(|(charge, trial)| !here(charge) && (is_counter(trial) || gives(charge)))
    }

    /// Keeps the batch or leaves what a refusal leaves, and says so.
    fn conclude(
        &mut self,
        ticket: Ticket,
        batch: &[Owed],
        known: &[Known],
        trials: &[Trial],
        context: Context,
    ) -> Attempt {
        let committed = batch::commits(batch, trials);
        let mut remote: SmallVec<[(Owed, Action); 2]> = SmallVec::new();
        let mut verdicts: SmallVec<[Verdict; 2]> = SmallVec::new();
        let mut left: SmallVec<[Known; 2]> = SmallVec::from_slice(known);
        for (index, (charge, trial)) in batch.iter().zip(trials).enumerate() {
            let (action, after, verdict) = if committed {
                let action = match batch::action(charge.op, context.on_refusal) {
                    // It was refused, which here means nothing, and is counted at most.
                    Action::Spend { count_refusal } if !trial.verdict.is_admitted() => {
                        if count_refusal {
                            Action::Count
                        } else {
                            Action::Peek
                        }
                    }
                    action => action,
                };
                (action, trial.after, trial.verdict)
            } else {
                let action = batch::left_behind(charge, trial, context.on_refusal);
                let now_known = left.get(index).copied().unwrap_or(trial.after);
                let done = now_known.attempt(charge, action, context.now);
                if action != Action::Peek {
                    // What stands later in the batch builds on it.
                    let same = |other: &Owed| other.key == charge.key;
                    let places = left.iter_mut().zip(batch).filter(|(_, other)| same(other));
                    places.for_each(|(place, _)| *place = done.after);
                }
                (action, done.after, Verdict { outcome: trial.verdict.outcome, ..done.verdict })
            };
            verdicts.push(verdict);
            if action != Action::Peek {
                let rest = self.record(charge, action, &after, trial, context.now);
                if rest > 0 {
                    remote.push((Owed { cost: rest, ..*charge }, action));
                }
            }
        }
        let verdicts = Verdicts::new(committed, verdicts);
        if remote.is_empty() {
            return Attempt::Done(verdicts);
        }
        self.do_remote(ticket, &remote, verdicts, context)
    }

    /// Writes down what a charge did here. Says how much of it is for the owner to do.
    fn record(&mut self, charge: &Owed, action: Action, after: &Known, trial: &Trial, now: Timestamp) -> u64 {
        let tag = self.shelf.tag(&self.council, &self.options, (charge.key, &charge.limit), now);
        let eventual = self.options.consistency == Consistency::Eventual;
        let Some(mut page) = self.shelf.books.page(&charge.key, tag) else { return 0 };
        let spends = matches!(action, Action::Spend { .. }) && trial.verdict.is_admitted();
        let rest = match (&mut page.side, after) {
            (Side::Till(till), after) => {
                if let Known::Counter { state, .. } = after {
                    till.state = *state;
                }
                if spends || action == Action::Debit {
                    till.note_spent(charge.cost);
                }
                page.follow_state(&charge.limit, &self.options);
                return 0;
            }
            (Side::Purse(_), Known::Counter { .. }) => return charge.cost,
            (Side::Purse(purse), Known::Rights { .. }) => {
                let can = u64::try_from(purse.unspent()).unwrap_or(0);
                match action {
                    Action::Spend { .. } if spends => {
                        if !eventual {
                            self.beyond_rights += charge.cost.saturating_sub(can);
                        }
                        purse.spend(charge.cost);
                        0
                    }
                    Action::Debit if eventual => {
                        purse.spend(charge.cost);
                        0
                    }
                    Action::Debit => {
                        purse.spend(charge.cost.min(can));
                        charge.cost.saturating_sub(can)
                    }
                    // A bucket's tokens that come back need room, and only its owner knows of that.
                    Action::Refund if matches!(charge.limit, Limit::TokenBucket(_)) => charge.cost,
                    Action::Refund => charge.cost - purse.give_back(charge.cost),
                    Action::Spend { .. } | Action::Count => {
                        purse.refuse(charge.cost);
                        0
                    }
                    Action::Peek => 0,
                }
            }
        };
        page.list();
        rest
    }

    /// Decides without the mesh: too many counters are shared already, or no view says who shares this one.
    fn decide_alone(&mut self, batch: &[Owed], context: Context, policy: Option<OnUnreachable>) -> Verdicts {
        let members = self.council.head().map_or(self.links.len() + 1, |head| head.members().len());
        let members = u32::try_from(members.max(1)).unwrap_or(u32::MAX);
        let limits: Vec<Limit> = batch
            .iter()
            .map(|charge| match policy {
                None => charge.limit,
                Some(OnUnreachable::Share) => evenly(&charge.limit, members),
                Some(OnUnreachable::Refuse) => Limit::fixed_window(0, charge.limit.period()),
                Some(OnUnreachable::Admit) => Limit::fixed_window(u32::MAX, charge.limit.period()),
            })
            .collect();
        let parts: Vec<String> = batch.iter().map(|charge| charge.descriptor.to_string()).collect();
        let entries: Vec<_> = parts.iter().map(|part| [("", part.as_str())]).collect();
        let charges: Vec<Charge<'_>> = (batch.iter().zip(&limits).zip(&entries))
            .map(|((charge, limit), entries)| Charge {
                key: charge.key,
                parts: Parts { domain: "", entries },
                limit,
                ordinal: 0,
                cost: Cost::new(charge.cost),
                op: charge.op,
                mode: charge.mode,
            })
            .collect();
        let verdicts = self.local.0.decide_now(&charges, context);
        if policy.is_some() && verdicts.committed {
            self.beyond_rights +=
                batch.iter().filter(|charge| charge.op == Op::Spend).map(|charge| charge.cost).sum::<u64>();
        }
        verdicts
    }
}

/// An even share of a limit, at least one.
fn evenly(limit: &Limit, members: u32) -> Limit {
    let share = |amount: u32| amount.div_ceil(members).max(u32::from(amount > 0));
    match limit {
        Limit::SlidingWindow(_) => Limit::sliding_window(share(limit.requests()), limit.period()),
        Limit::TokenBucket(_) => Rate::new(share(limit.requests()), limit.period())
            .and_then(|rate| Limit::token_bucket(rate, share(limit.burst())))
            .unwrap_or(*limit),
        _ => Limit::fixed_window(share(limit.requests()), limit.period()),
    }
}

/// A counter of which nothing can be had in time.
fn nothing(charge: &Owed, now: Timestamp) -> Known {
    let ends = ends(&charge.limit, tag_at(&charge.limit, now), now);
    Known::Rights { can: 0, left: 0, own: 0, ends, final_word: true }
}
