//! Three members that propose different views at the same moment, and messages that arrive in any order, twice
//! or never. Many short runs: the members must never fork.

use super::*;
use crate::motion::Votes;
use crate::owner::NodeId;
use crate::testing::Random;

const MS: u64 = 1_000_000;

struct Table {
    random: Random,
    now: u64,
    seats: Vec<(Council, Peers)>,
    mail: Vec<(usize, usize, View, Votes)>,
}

fn members() -> [Member; 3] {
    ["a", "b", "c"].map(|name| Member::new(NodeId::new(name), 1))
}

/// The chain of all three: a founded it, b and c joined.
fn chain() -> Chain {
    let [first, ..] = members();
    let founded = View::founded(first.clone(), Timestamp::from_millis(1));
    let round = Round { number: 1, proposer: first.id };
    let joined = View::new(Some(founded.as_base()), Timestamp::from_millis(100), round, members(), []);
    let mut chain = Chain::founded(founded, Timestamp::from_millis(1));
    assert!(chain.append(joined));
    chain
}

impl Table {
    fn new(seed: u64) -> Self {
        let now = 10_000 * MS;
        let options = CouncilOptions { stagger: Duration::ZERO, ..CouncilOptions::default() };
        let seats = members().into_iter().zip(["x", "y", "z"]).map(|(me, guest)| {
            let mut council = Council::new(me.clone(), options.clone(), Timestamp::EPOCH);
            council.on_chain(chain());
            // Long enough to count as heard in every run: silence is not tested here.
            let mut peers = Peers::new(Duration::from_secs(3_600), 9);
            let at = Timestamp::from_nanos(now);
            members().iter().filter(|other| **other != me).for_each(|other| {
                peers.hear(other, at, None, false);
            });
            let head = council.head().map(|head| head.id());
            peers.hear(&Member::new(NodeId::new(guest), 1), at, head, false);
            (council, peers)
        });
        Self { random: Random::new(seed), now, seats: seats.collect(), mail: vec![] }
    }

    fn post(&mut self, from: usize) {
        let Some((council, _)) = self.seats.get(from) else { return };
        let said: Vec<(View, Votes)> = council
            .motions()
            .iter()
            .map(|motion| (motion.view.clone(), motion.said_by(&council.me)))
            .collect();
        for (view, votes) in said {
            for to in (0..3).filter(|to| *to != from) {
                self.mail.push((from, to, view.clone(), votes));
            }
        }
    }

    fn step(&mut self) {
        let seat = usize::try_from(self.random.below(3)).unwrap();
        self.now += self.random.below(120) * MS;
        let now = Timestamp::from_nanos(self.now);
        if self.random.chance(300) || self.mail.is_empty() {
            let (council, peers) = &mut self.seats[seat];
            council.on_tick(now, peers);
            // Every third one begins a window, some of them long before it starts.
            if self.random.chance(300) {
                let ahead = self.random.below(3_000) * MS;
                council.begin(Timestamp::from_nanos(self.now + ahead));
            }
            self.post(seat);
            return;
        }
        let index = usize::try_from(self.random.below(self.mail.len() as u64)).unwrap();
        let (from, to, view, votes) = self.mail[index].clone();
        if self.random.chance(700) {
            self.mail.swap_remove(index);
        }
        if self.random.chance(850) {
            let (council, peers) = &mut self.seats[to];
            council.hear_motion(now, peers, &members()[from], view, votes);
            self.post(to);
        }
    }

    /// The views in which members begin the windows at these starts must be equal.
    fn hold(&mut self, seed: u64) {
        let starts: Vec<u64> = (0..12).map(|step| (10_000 + 500 * step) * MS).collect();
        for start in starts {
            let said: Vec<ViewId> = self
                .seats
                .iter_mut()
                .filter_map(|(council, _)| match council.begin(Timestamp::from_nanos(start)) {
                    Begun::In(view) => Some(view.id()),
                    Begun::Unknown => None,
                })
                .collect();
            assert!(said.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}: two views at {start}");
        }
    }
}

/// Fails when a voter that released has also seen, one voter that has seen it is enough, windows begin past an
/// undecided fence, or one release gives a motion up. In the first version also when a motion that was given up
/// and dropped is voted on again. Tried since without failing: that one, and a voter that consents to two
/// motions. All must consent, which protects against the same.
#[test]
fn members_that_propose_at_once_never_take_two_ways() {
    let seeds = if std::env::var_os("HIVEMIND_LONG").is_some() { 400_000 } else { 12_000 };
    let mut changed = 0;
    for seed in 0..seeds {
        let mut table = Table::new(seed);
        let steps = 20 + table.random.below(100);
        for _ in 0..steps {
            table.step();
        }
        changed += u64::from(table.seats.iter().any(|(council, _)| council.head().unwrap().height > 1));
        table.hold(seed);
    }
    assert!(changed * 20 > seeds, "only {changed} of {seeds} runs came to a new view");
}

#[test]
fn a_fence_before_a_window_that_has_begun_is_not_consented_to() {
    let mut table = Table::new(1);
    let now = Timestamp::from_nanos(table.now);
    // The clock of b is far ahead, or the owner opened the next window early.
    let (council, _) = &mut table.seats[1];
    assert!(matches!(council.begin(now.saturating_add(Duration::from_secs(60))), Begun::In(_)));
    let (council, peers) = &mut table.seats[0];
    assert!(council.on_tick(now, peers));
    let motion = council.motions()[0].clone();
    let (council, peers) = &mut table.seats[1];
    council.on_motion(now, peers, motion.view.clone(), (motion.consents, 0, 0));
    assert_ne!(council.motions()[0].released & council.motions()[0].bit(&council.me), 0);
}
