//! Frame mutator for fuzzing: records the frames of a real exchange, changes their numbers, and encodes them again, so that
//! a receiver decodes them completely. It simulates a malicious peer with a valid certificate.

use hivemind_core::algorithm::Action;
use hivemind_core::{Limit, Rate};
use hivemind_mesh::frame::codec::{Encoder, Items, read_header};
use hivemind_mesh::frame::interner::{CounterRef, ReceiveInterner, SendInterner};
use hivemind_mesh::frame::{Header, Item, MemberReport, OwnerReply, OwnerUpdate, Want, WindowRef};
use hivemind_mesh::testing::Random;
use hivemind_mesh::view::ViewId;
use hivemind_mesh::view::proposal::Votes;

/// Records the frames of one link and creates mutated ones.
///
/// ```
/// use hivemind_mesh_sim::{FrameMutator, Random};
///
/// let mut mutator = FrameMutator::default();
/// mutator.read(b"not a frame");
/// assert_eq!(mutator.mutate(&mut Random::new(1), true), None); // No valid frame was recorded.
/// ```
#[derive(Debug, Default)]
pub struct FrameMutator {
    receive_interner: ReceiveInterner,
    /// Recorded frames.
    frames: Vec<(Header, Vec<Item>)>,
}

/// Maximum number of recorded frames.
const MAX_FRAMES: usize = 64;

impl FrameMutator {
    /// Records a frame. Frames have to be passed in the order in which they were sent.
    pub fn read(&mut self, frame: &[u8]) {
        let Ok((header, reader)) = read_header(frame) else { return };
        let mut items = Items { reader, header: &header, receive_interner: &mut self.receive_interner };
        let mut read = Vec::new();
        while let Ok(Some(item)) = items.next_item() {
            read.push(item);
        }
        if self.frames.len() >= MAX_FRAMES {
            self.frames.remove(0);
        }
        self.frames.push((header, read));
    }

    /// Creates a frame that was never sent. With `all`, it also contains actions that every member is allowed to perform:
    /// refunds, resets and proposals of views.
    pub fn mutate(&self, random: &mut Random, all: bool) -> Option<Vec<u8>> {
        let index = usize::try_from(random.below(self.frames.len() as u64)).ok()?;
        let (header, items) = self.frames.get(index)?;
        let mut header = header.clone();
        if random.chance(50) {
            header.known = u32::try_from(random.below(1 << 32)).unwrap_or(0);
        }
        let mut send_interner = SendInterner::full();
        let mut encoder = Encoder::new(&header, &mut send_interner);
        for item in items {
            for _ in 0..=random.below(2) {
                let mutated = mutate_item(item.clone(), random, all);
                let of_views = matches!(mutated, Item::ViewLog { .. } | Item::Proposal { .. });
                if all || !of_views {
                    encoder.push(&mutated);
                }
            }
        }
        Some(encoder.finish())
    }
}

fn mutate_number(number: u64, random: &mut Random) -> u64 {
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

fn mutate_window_ref(window_ref: WindowRef, random: &mut Random) -> WindowRef {
    let mut mutated = window_ref;
    match random.below(12) {
        0 => mutated.tag = mutated.tag.wrapping_add(1),
        1 => mutated.tag = mutated.tag.wrapping_sub(1),
        2 => mutated.tag = random.draw(),
        3 => mutated.view = ViewId(random.draw()),
        4 => {
            let limit = window_ref.counter.limit;
            let mut small = |value: u32| u32::try_from(mutate_number(u64::from(value), random)).unwrap_or(9);
            let (requests, burst) = (small(limit.requests()), small(limit.burst()));
            let rate = Rate::new(requests, limit.period());
            let bucket = rate.and_then(|rate| Limit::token_bucket(rate, burst));
            let value = match limit {
                Limit::TokenBucket(_) => bucket.unwrap_or(limit),
                Limit::SlidingWindow(_) => Limit::sliding_window(requests, limit.period()),
                _ => Limit::fixed_window(requests, limit.period()),
            };
            mutated.counter = CounterRef { limit: value, ..window_ref.counter };
        }
        5 => {
            let key = hivemind_core::store::Key::from_bits(random.below(40), random.draw());
            mutated.counter = CounterRef { key, ..window_ref.counter };
        }
        _ => {}
    }
    mutated
}

fn mutate_report(report: MemberReport, random: &mut Random, all: bool) -> MemberReport {
    MemberReport {
        serial: if random.chance(200) { mutate_number(report.serial, random) } else { report.serial },
        spent: mutate_number(report.spent, random),
        returned: mutate_number(report.returned, random),
        granted_seen: mutate_number(report.granted_seen, random) >> 1,
        refused: mutate_number(report.refused, random),
        refunded: mutate_number(report.refunded, random),
        // The total of refunds, which a member may grant for spending of others.
        given: if all { mutate_number(report.given, random) } else { report.given },
        owed: mutate_number(report.owed, random),
        birth: report.birth,
        eventual: random.chance(100),
    }
}

fn mutate_update(update: OwnerUpdate, random: &mut Random, all: bool) -> OwnerUpdate {
    OwnerUpdate {
        serial: if random.chance(200) { mutate_number(update.serial, random) } else { update.serial },
        granted: mutate_number(update.granted, random) >> 1,
        settled_seen: mutate_number(update.settled_seen, random),
        left: mutate_number(update.left.unsigned_abs(), random).cast_signed(),
        others: mutate_number(update.others, random),
        recall: random.chance(300),
        // A reset, which any node may request.
        resets: if all { mutate_number(update.resets, random) } else { update.resets },
    }
}

fn mutate_want(want: Want, random: &mut Random, all: bool) -> Want {
    match random.below(8) {
        0 if all => Want::Forget,
        1 if all => Want::Do { action: Action::Refund, cost: mutate_number(1, random) },
        2 => Want::Do { action: Action::Debit, cost: mutate_number(1, random) },
        3 => Want::Do {
            action: Action::Spend { count_refusal: random.chance(500) },
            cost: mutate_number(1, random),
        },
        4 => Want::Look,
        5 => Want::Grant { need: mutate_number(1, random), ahead: mutate_number(1, random) },
        _ => want,
    }
}

fn flip_votes((consents, seen, released): Votes, random: &mut Random) -> Votes {
    let flip = |votes: u128, random: &mut Random| votes ^ (1 << random.below(127));
    (flip(consents, random), flip(seen, random), flip(released, random))
}

fn mutate_item(item: Item, random: &mut Random, all: bool) -> Item {
    match item {
        Item::Report(at, original) => {
            let (at, report) = (mutate_window_ref(at, random), mutate_report(original, random, all));
            if random.chance(100) {
                Item::Update(at, OwnerUpdate::default())
            } else {
                Item::Report(at, report)
            }
        }
        Item::Update(at, original) => {
            Item::Update(mutate_window_ref(at, random), mutate_update(original, random, all))
        }
        Item::Ask { id, window_ref: at, report: original, want: original_want } => Item::Ask {
            id: mutate_number(id, random),
            window_ref: mutate_window_ref(at, random),
            report: mutate_report(original, random, all),
            want: mutate_want(original_want, random, all),
        },
        Item::Answer { id, window_ref: at, update: original, reply } => Item::Answer {
            id: mutate_number(id, random),
            window_ref: mutate_window_ref(at, random),
            update: mutate_update(original, random, all),
            reply: if random.chance(300) { OwnerReply::Granted } else { reply },
        },
        Item::Proposal { view, votes } => Item::Proposal { view, votes: flip_votes(votes, random) },
        Item::Vote { view, votes } => Item::Vote { view, votes: flip_votes(votes, random) },
        Item::ViewLog { root, mut views } => {
            if random.chance(500) {
                views.pop();
            }
            Item::ViewLog { root, views }
        }
        // A former owner can pass on full buckets with false levels: as much as it could have granted before.
        Item::Levels(value) if !all => Item::Levels(value),
        Item::Levels(mut value) => {
            let mut small =
                |value: u32| u32::try_from(mutate_number(u64::from(value), random)).unwrap_or(value);
            value.each.iter_mut().for_each(|(_, level)| *level = small(*level));
            (value.count, value.first) = (small(value.count), small(value.first));
            Item::Levels(value)
        }
        Item::Taken { view, taken } => Item::Taken {
            view,
            taken: u32::try_from(mutate_number(u64::from(taken), random)).unwrap_or(taken),
        },
    }
}
