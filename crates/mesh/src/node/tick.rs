//! The tick: sends votes and views until all peers have them, changed totals at every interval, unacknowledged
//! ones again, and heartbeats, so that silence is meaningful.

use super::{Lane, Node};
use crate::counter::counter_window::{CounterWindow, Side};
use crate::frame::interner::CounterRef;
use crate::frame::{Item, MemberReport, WindowRef};
use crate::view::NodeId;
use crate::view::proposal::VoteResult;
use crate::view::{Generation, Member};
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// For how many seconds a link is kept to a name without a known or expected peer.
const UNKNOWN_FOR: u32 = 60;
/// A leaver checks all its holdings at every interval; above this number of counters less often, because it has
/// to send their updates, too.
const LOOKED_AT: usize = 10_000;

impl Node {
    /// Time has passed; call it every few milliseconds.
    pub fn on_tick(&mut self, now: Timestamp) {
        let now = self.tick_clock(now);
        self.table.counters.see(now);
        self.expire(now);
        // Before updates are sent: an expired lease has none.
        if now.since(self.swept) >= Duration::from_secs(1) {
            self.swept = now;
            self.table.advance_sweep(now);
            self.forget_peers(now);
        }
        for key in self.table.sweep(&self.options, now) {
            self.recall_idle(key, now);
        }
        if self.membership.on_tick(now, &self.peers) {
            self.send_views(now);
        }
        self.views_may_have_changed(now);
        if self.membership.stays_until(now) < Timestamp::MAX {
            // A view takes effect soon, and other clocks may show a different time by now.
            self.table.views_changed();
        }
        self.send_handoffs(now);
        if now.since(self.synced) >= self.options.sync_interval {
            self.synced = now;
            self.return_all_if_leaving(now);
            self.send_updates(now);
            self.send_views(now);
            self.send_heartbeats(now);
        }
        self.flush_urgent(now);
    }

    /// Sends this node's votes to the voters they concern, and views to peers that have others.
    pub(super) fn send_views(&mut self, now: Timestamp) {
        let mut items: BTreeMap<NodeId, Vec<Item>> = BTreeMap::new();
        let me = &self.membership.me;
        for proposal in self.membership.proposals() {
            let votes = proposal.votes_of(me);
            let given_up = proposal.result() == VoteResult::GivenUp
                && now.since(proposal.since) > Duration::from_secs(5);
            if given_up || votes == (0, 0, 0) {
                continue;
            }
            for voter in proposal.voters.iter().filter(|voter| *voter != me) {
                let knows = proposal.known & proposal.bit(voter) != 0;
                // A voter that has seen that all consent has this node's consent.
                if votes.1 | votes.2 != 0 || proposal.seen & proposal.bit(voter) == 0 {
                    let view = proposal.view.id();
                    let item = if knows {
                        Item::Vote { view, votes }
                    } else {
                        Item::Proposal { view: proposal.view.clone(), votes }
                    };
                    items.entry(voter.id.clone()).or_default().push(item);
                }
            }
        }
        // Each voter must learn from every other voter that it has seen the proposal, also from those in the next view.
        if let Some(proposal) = self.membership.carried().filter(|proposal| proposal.votes_of(me).1 != 0) {
            let (view, votes) = (proposal.view.id(), proposal.votes_of(me));
            let behind =
                |voter: &&Member| self.peers.follows(voter, now, |id| proposal.view.base == Some(id));
            for voter in proposal.voters.iter().filter(|voter| *voter != me).filter(behind) {
                items.entry(voter.id.clone()).or_default().push(Item::Vote { view, votes });
            }
        }
        self.add_views(now, &mut items);
        for (to, items) in items {
            self.send(&to, Lane::Sync, &items, now);
        }
    }

    /// Sends each peer the views that it lacks, but not at every interval.
    fn add_views(&mut self, now: Timestamp, items: &mut BTreeMap<NodeId, Vec<Item>>) {
        let Some(view_log) = self.membership.view_log() else { return };
        let (head, root) = (view_log.head().id(), view_log.root());
        let again = self.options.sync_interval * 4;
        let lacks: Vec<NodeId> = self
            .peers
            .heard(now)
            .filter(|(_, peer)| peer.head != Some(head))
            .filter(|(_, peer)| !peer.sent_view.is_some_and(|(id, at)| id == head && now.since(at) < again))
            .map(|(id, _)| id.clone())
            .collect();
        for id in lacks {
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            peer.sent_view = Some((head, now));
            let item = Item::ViewLog { root: root.clone(), views: view_log.lacking(peer.head) };
            items.entry(id).or_default().push(item);
        }
    }

    /// Forgets peers without any state, so that there is room for others.
    fn forget_peers(&mut self, now: Timestamp) {
        let Self { membership, peers, links, .. } = self;
        peers.forget(now, |id| membership.names(id));
        links.retain(|id, link| {
            let known = peers.get(id).is_some() || membership.names(id);
            link.unknown_for = if known { 0 } else { link.unknown_for.saturating_add(1) };
            let never_spoke = link.generation == Generation::default();
            link.unknown_for < UNKNOWN_FOR || never_spoke && peers.may_answer(id)
        });
        membership.rules.forget(|id| links.contains_key(id));
        peers.forget_silent(|id| links.contains_key(id));
    }

    /// Sends changes to the peers they concern.
    fn send_updates(&mut self, now: Timestamp) {
        for key in self.due(now) {
            self.collect_updates(key, now);
        }
        let peers: Vec<NodeId> =
            self.links.iter().filter(|(_, link)| !link.items.is_empty()).map(|(id, _)| id.clone()).collect();
        for peer in peers {
            let items =
                self.links.get_mut(&peer).map(|link| std::mem::take(&mut link.items)).unwrap_or_default();
            self.send(&peer, Lane::Sync, &items, now);
        }
    }

    /// Collects the updates of one counter, which stays queued if more must be sent later.
    fn collect_updates(&mut self, key: Key, now: Timestamp) {
        let Self { table, links, peers, options, .. } = self;
        // Without a counter its windows are over.
        let Some(mut counter) = table.counters.get_mut(&key) else { return };
        let (limit, eventual) = (counter.limit(), counter.counted.is_some());
        let again = options.sync_interval * 3;
        let mut more = false;
        for window in &mut counter.windows {
            let window_ref =
                WindowRef { counter: CounterRef { key, limit }, view: window.view.id(), tag: window.tag };
            let moment = CounterWindow::moment(window.tag, &limit, now);
            let decides = window.decides(&limit, options);
            match &mut window.side {
                Side::Lease(lease) => {
                    let owner = window.view.owner(key);
                    // Sent again once the owner is heard again.
                    let heard = owner.is_some_and(|owner| peers.is_heard(owner, now));
                    let repeats = lease.is_unacked() && lease.reported.ago(now) >= again;
                    if (lease.is_dirty() || repeats && heard)
                        && let Some(link) = owner.and_then(|owner| links.get_mut(&owner.id))
                    {
                        let report = MemberReport { eventual, ..lease.report() };
                        link.items.push(Item::Report(window_ref, report));
                        lease.mark_sent(now);
                    }
                    more |= lease.is_unacked();
                }
                Side::Ledger(ledger) => {
                    let members: Vec<_> = ledger
                        .accounts()
                        .iter()
                        .filter(|account| {
                            let repeats = account.is_unacked() && account.sent.ago(now) >= again;
                            (account.is_dirty || repeats) && peers.is_heard(&account.member, now)
                        })
                        .map(|account| Arc::clone(&account.member))
                        .collect();
                    for member in members {
                        let update = ledger.update_for(&limit, &member, (decides, moment));
                        if let Some(link) = links.get_mut(&member.id) {
                            link.items.push(Item::Update(window_ref, update));
                        }
                    }
                    more |= ledger.accounts().iter().any(crate::counter::owner_ledger::Account::is_unacked);
                }
            }
        }
        // Under the lock that it was read under: later spending queues it again.
        counter.set_queued(false);
        counter.set_queued(more);
    }

    fn send_heartbeats(&mut self, now: Timestamp) {
        // Well below the time after which silence counts.
        let longest = self.options.membership.staleness / 3;
        let quiet = self.links.keys().filter(|id| self.peers.is_left_alone(id, now, longest));
        let quiet: Vec<NodeId> = quiet.cloned().collect();
        for peer in quiet {
            self.send(&peer, Lane::Sync, &[], now);
        }
    }

    /// A node that is out of the view returns all its holdings before it leaves.
    fn return_all_if_leaving(&mut self, now: Timestamp) {
        let out = self.membership.current(now).is_some_and(|view| !view.has(&self.membership.me));
        if !self.membership.leaving || !out {
            return;
        }
        let head = self.membership.head().map(|head| head.id());
        if self.gave_back == head && self.looks_in > 0 {
            self.looks_in -= 1;
            return;
        }
        (self.gave_back, self.looks_in) = (head, self.table.counters.len() / LOOKED_AT);
        let Self { table, membership, options, .. } = self;
        let mut queued = Vec::new();
        for (key, limit, tag) in table.counters.windows() {
            let Ok(mut counter) = table.open(membership, options, (key, &limit, tag), now) else { continue };
            if let Some(CounterWindow { side: Side::Lease(lease), .. }) = counter.window(tag)
                && lease.give_up(0) > 0
            {
                queued.push(key);
            }
        }
        for key in queued {
            self.queue(key);
        }
    }

    /// Whether a leaving node has nothing left to return, and is out of the view.
    ///
    /// ```
    /// # use hivemind_core::Timestamp;
    /// # use hivemind_mesh::{MeshOptions, testing::mesh_nodes};
    /// # let now = Timestamp::from_millis(1_700_000_000_000);
    /// assert!(!mesh_nodes(1, &MeshOptions::default(), now)[0].has_left(now)); // It is not leaving.
    /// ```
    #[must_use]
    pub fn has_left(&self, now: Timestamp) -> bool {
        let now = self.mesh_time(now);
        let without = |view: &std::sync::Arc<crate::view::View>| !view.has(&self.membership.me);
        // A node that has just joined is in the newest view before that becomes active.
        let out =
            self.membership.current(now).is_some_and(without) && self.membership.head().is_some_and(without);
        // If no member stays, nothing has to be returned.
        let is_last = self.membership.would_be_empty(now, &self.peers);
        let head = self.membership.head().map(|head| head.id());
        // Holdings are queued when they are checked, and not before.
        let is_sent = self.gave_back == head && self.handoff.is_done(head);
        let nothing_waits = self.table.counters.is_queue_empty() && self.budget.nothing_waits();
        self.membership.leaving && (is_last || out && is_sent && nothing_waits)
    }
}
