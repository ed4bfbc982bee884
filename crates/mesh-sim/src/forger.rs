//! A peer that has a certificate and lies: it reads the frames of a real exchange, changes what
//! they say, number by number, and writes them anew so that they are read to their end.

use hivemind_core::algorithm::Action;
use hivemind_core::{Limit, Rate};
use hivemind_mesh::codec::{Encoder, Items, read_header};
use hivemind_mesh::dictionary::{Heard, Spoken, Subject};
use hivemind_mesh::frame::{Header, Item, Place, Reply, Report, Want, Word};
use hivemind_mesh::motion::Votes;
use hivemind_mesh::testing::Random;
use hivemind_mesh::view::ViewId;

/// Reads what goes from one node to another, and forges it.
///
/// ```
/// use hivemind_mesh_sim::{Forger, Random};
///
/// let mut forger = Forger::default();
/// forger.read(b"no frame at all");
/// assert_eq!(forger.forge(&mut Random::new(1), true), None); // It has read nothing to lie about.
/// ```
#[derive(Debug, Default)]
pub struct Forger {
    heard: Heard,
    /// What was read, to be said again in other words.
    known: Vec<(Header, Vec<Item>)>,
}

/// So much of what was read is remembered.
const MOST_KNOWN: usize = 64;

impl Forger {
    /// Reads a frame of a link, in the order in which they were sent.
    pub fn read(&mut self, frame: &[u8]) {
        let Ok((header, reader)) = read_header(frame) else { return };
        let mut items = Items { reader, header: &header, heard: &mut self.heard };
        let mut read = Vec::new();
        while let Ok(Some(item)) = items.next_item() {
            read.push(item);
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.remove(0);
        }
        self.known.push((header, read));
    }

    /// A frame that was never sent. What a member may do by right, to refund and to forget counters and to tell
    /// of views, is only in it if `all` is.
    pub fn forge(&self, random: &mut Random, all: bool) -> Option<Vec<u8>> {
        let place = usize::try_from(random.below(self.known.len() as u64)).ok()?;
        let (header, items) = self.known.get(place)?;
        let mut header = header.clone();
        if random.chance(50) {
            header.known = u32::try_from(random.below(1 << 32)).unwrap_or(0);
        }
        let mut spoken = Spoken::full();
        let mut encoder = Encoder::new(&header, &mut spoken);
        for item in items {
            for _ in 0..=random.below(2) {
                let forged = forge(item.clone(), random, all);
                let of_views = matches!(forged, Item::Chain { .. } | Item::Motion { .. });
                if all || !of_views {
                    encoder.push(&forged);
                }
            }
        }
        Some(encoder.finish())
    }
}

fn number(number: u64, random: &mut Random) -> u64 {
    match random.below(9) {
        0 => number.wrapping_add(1),
        1 => number.saturating_sub(1),
        2 => number.saturating_mul(10),
        3 => 0,
        4 => 1 << random.below(63),
        5 => u64::MAX >> 2,
        6 => random.below(100),
        _ => number,
    }
}

fn place(place: Place, random: &mut Random) -> Place {
    let mut forged = place;
    match random.below(12) {
        0 => forged.tag = forged.tag.wrapping_add(1),
        1 => forged.tag = forged.tag.wrapping_sub(1),
        2 => forged.tag = random.draw(),
        3 => forged.view = ViewId(random.draw()),
        4 => {
            let limit = place.subject.limit;
            let mut small = |told: u32| u32::try_from(number(u64::from(told), random)).unwrap_or(9);
            let (requests, burst) = (small(limit.requests()), small(limit.burst()));
            let rate = Rate::new(requests, limit.period());
            let bucket = rate.and_then(|rate| Limit::token_bucket(rate, burst));
            let told = match limit {
                Limit::TokenBucket(_) => bucket.unwrap_or(limit),
                Limit::SlidingWindow(_) => Limit::sliding_window(requests, limit.period()),
                _ => Limit::fixed_window(requests, limit.period()),
            };
            forged.subject = Subject { limit: told, ..place.subject };
        }
        5 => {
            let key = hivemind_core::store::Key::from_bits(random.below(40), random.draw());
            forged.subject = Subject { key, ..place.subject };
        }
        _ => {}
    }
    forged
}

fn report(report: Report, random: &mut Random, all: bool) -> Report {
    Report {
        serial: if random.chance(200) { number(report.serial, random) } else { report.serial },
        spent: number(report.spent, random),
        returned: number(report.returned, random),
        granted_seen: number(report.granted_seen, random) >> 1,
        refused: number(report.refused, random),
        refunded: number(report.refunded, random),
        // A total of refunds, which a member may make of what others spent.
        given: if all { number(report.given, random) } else { report.given },
        owed: number(report.owed, random),
        birth: report.birth,
        eventual: random.chance(100),
    }
}

fn word(word: Word, random: &mut Random, all: bool) -> Word {
    Word {
        serial: if random.chance(200) { number(word.serial, random) } else { word.serial },
        granted: number(word.granted, random) >> 1,
        settled_seen: number(word.settled_seen, random),
        left: number(word.left.unsigned_abs(), random).cast_signed(),
        others: number(word.others, random),
        recall: random.chance(300),
        // A reset, which any node may be asked for.
        resets: if all { number(word.resets, random) } else { word.resets },
    }
}

fn want(want: Want, random: &mut Random, all: bool) -> Want {
    match random.below(8) {
        0 if all => Want::Forget,
        1 if all => Want::Do { action: Action::Refund, cost: number(1, random) },
        2 => Want::Do { action: Action::Debit, cost: number(1, random) },
        3 => {
            Want::Do { action: Action::Spend { count_refusal: random.chance(500) }, cost: number(1, random) }
        }
        4 => Want::Look,
        5 => Want::Lend { need: number(1, random), ahead: number(1, random) },
        _ => want,
    }
}

fn flipped((consents, seen, released): Votes, random: &mut Random) -> Votes {
    let flip = |votes: u128, random: &mut Random| votes ^ (1 << random.below(127));
    (flip(consents, random), flip(seen, random), flip(released, random))
}

fn forge(item: Item, random: &mut Random, all: bool) -> Item {
    match item {
        Item::Report(at, said) => {
            let (at, report) = (place(at, random), report(said, random, all));
            if random.chance(100) { Item::Word(at, Word::default()) } else { Item::Report(at, report) }
        }
        Item::Word(at, said) => Item::Word(place(at, random), word(said, random, all)),
        Item::Ask { id, place: at, report: said, want: wanted } => Item::Ask {
            id: number(id, random),
            place: place(at, random),
            report: report(said, random, all),
            want: want(wanted, random, all),
        },
        Item::Answer { id, place: at, word: said, reply } => Item::Answer {
            id: number(id, random),
            place: place(at, random),
            word: word(said, random, all),
            reply: if random.chance(300) { Reply::Lent } else { reply },
        },
        Item::Motion { view, votes } => Item::Motion { view, votes: flipped(votes, random) },
        Item::Vote { view, votes } => Item::Vote { view, votes: flipped(votes, random) },
        Item::Chain { root, mut views } => {
            if random.chance(500) {
                views.pop();
            }
            Item::Chain { root, views }
        }
        // A former owner that lies gives its heirs as much as their buckets hold: what it could have lent before.
        Item::Levels(told) if !all => Item::Levels(told),
        Item::Levels(mut told) => {
            let mut small = |told: u32| u32::try_from(number(u64::from(told), random)).unwrap_or(told);
            told.each.iter_mut().for_each(|(_, level)| *level = small(*level));
            (told.count, told.first) = (small(told.count), small(told.first));
            Item::Levels(told)
        }
        Item::Taken { view, taken } => {
            Item::Taken { view, taken: u32::try_from(number(u64::from(taken), random)).unwrap_or(taken) }
        }
    }
}
