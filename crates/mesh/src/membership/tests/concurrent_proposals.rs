//! Three members that propose different views at the same moment, and messages that arrive in any order, twice
//! or never. Many short runs: the members must never fork.

use super::*;
use crate::testing::Random;
use crate::view::NodeId;
use crate::view::proposal::Votes;

const MS: u64 = 1_000_000;

struct Table {
    random: Random,
    now: u64,
    participants: Vec<(Membership, Peers)>,
    mail: Vec<(usize, usize, View, Votes)>,
}

fn members() -> [Member; 3] {
    ["a", "b", "c"].map(|name| Member::new(NodeId::new(name), 1))
}

/// The view log of all three: a founded it, b and c joined.
fn view_log() -> ViewLog {
    let [first, ..] = members();
    let founded = View::founded(first.clone(), Timestamp::from_millis(1));
    let round = Round { number: 1, proposer: first.id };
    let joined = View::new(Some(founded.as_base()), Timestamp::from_millis(100), round, members(), []);
    let mut view_log = ViewLog::founded(founded, Timestamp::from_millis(1));
    assert!(view_log.append(joined));
    view_log
}

impl Table {
    fn new(seed: u64) -> Self {
        let now = 10_000 * MS;
        let options = MembershipOptions { stagger: Duration::ZERO, ..MembershipOptions::default() };
        let participants = members().into_iter().zip(["x", "y", "z"]).map(|(me, observer)| {
            let mut membership = Membership::new(me.clone(), options.clone(), Timestamp::EPOCH);
            membership.adopt_view_log(view_log());
            // Long enough to count as heard in every run: silence is not tested here.
            let mut peers = Peers::new(Duration::from_secs(3_600), 9);
            let at = Timestamp::from_nanos(now);
            members().iter().filter(|other| **other != me).for_each(|other| {
                peers.hear(other, at, None, false);
            });
            let head = membership.head().map(|head| head.id());
            peers.hear(&Member::new(NodeId::new(observer), 1), at, head, false);
            (membership, peers)
        });
        Self { random: Random::new(seed), now, participants: participants.collect(), mail: vec![] }
    }

    fn enqueue(&mut self, from: usize) {
        let Some((membership, _)) = self.participants.get(from) else { return };
        let votes_cast: Vec<(View, Votes)> = membership
            .proposals()
            .iter()
            .map(|proposal| (proposal.view.clone(), proposal.votes_of(&membership.me)))
            .collect();
        for (view, votes) in votes_cast {
            for to in (0..3).filter(|to| *to != from) {
                self.mail.push((from, to, view.clone(), votes));
            }
        }
    }

    fn step(&mut self) {
        let participant = usize::try_from(self.random.below(3)).unwrap();
        self.now += self.random.below(120) * MS;
        let now = Timestamp::from_nanos(self.now);
        if self.random.chance(300) || self.mail.is_empty() {
            let (membership, peers) = &mut self.participants[participant];
            membership.on_tick(now, peers);
            // Every third one begins a window, some of them long before it starts.
            if self.random.chance(300) {
                let ahead = self.random.below(3_000) * MS;
                membership.begin(Timestamp::from_nanos(self.now + ahead));
            }
            self.enqueue(participant);
            return;
        }
        let index = usize::try_from(self.random.below(self.mail.len() as u64)).unwrap();
        let (from, to, view, votes) = self.mail[index].clone();
        if self.random.chance(700) {
            self.mail.swap_remove(index);
        }
        if self.random.chance(850) {
            let (membership, peers) = &mut self.participants[to];
            membership.receive_proposal(now, peers, &members()[from], view, votes);
            self.enqueue(to);
        }
    }

    /// The views in which members begin the windows at these starts must be equal.
    fn hold(&mut self, seed: u64) {
        let starts: Vec<u64> = (0..12).map(|step| (10_000 + 500 * step) * MS).collect();
        for start in starts {
            let views: Vec<ViewId> = self
                .participants
                .iter_mut()
                .filter_map(|(membership, _)| match membership.begin(Timestamp::from_nanos(start)) {
                    WindowView::In(view) => Some(view.id()),
                    WindowView::Unknown => None,
                })
                .collect();
            assert!(views.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}: two views at {start}");
        }
    }
}

/// Fails when a voter that released has also seen, one voter that has seen it is enough, windows begin in
/// spite of an undecided vote, or one release gives a proposal up. In the first version also when a proposal that was
/// given up and dropped is voted on again. Tried since without failing: that one, and a voter that consents to two
/// proposals. All must consent, which protects against the same.
#[test]
fn concurrent_proposals_never_fork_the_view_log() {
    let seeds = if std::env::var_os("HIVEMIND_LONG").is_some() { 400_000 } else { 12_000 };
    let mut changed = 0;
    for seed in 0..seeds {
        let mut table = Table::new(seed);
        let steps = 20 + table.random.below(100);
        for _ in 0..steps {
            table.step();
        }
        changed +=
            u64::from(table.participants.iter().any(|(membership, _)| membership.head().unwrap().height > 1));
        table.hold(seed);
    }
    assert!(changed * 20 > seeds, "only {changed} of {seeds} runs came to a new view");
}

#[test]
fn view_before_a_begun_window_gets_no_consent() {
    let mut table = Table::new(1);
    let now = Timestamp::from_nanos(table.now);
    // The clock of b is far ahead, or the owner opened the next window early.
    let (membership, _) = &mut table.participants[1];
    assert!(matches!(membership.begin(now.saturating_add(Duration::from_secs(60))), WindowView::In(_)));
    let (membership, peers) = &mut table.participants[0];
    assert!(membership.on_tick(now, peers));
    let proposal = membership.proposals()[0].clone();
    let (membership, peers) = &mut table.participants[1];
    membership.on_proposal(now, peers, proposal.view.clone(), (proposal.consents, 0, 0));
    assert_ne!(membership.proposals()[0].released & membership.proposals()[0].bit(&membership.me), 0);
}
