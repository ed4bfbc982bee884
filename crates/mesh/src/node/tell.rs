//! The tick: sends votes and views until all peers have them, changed totals at every interval, unacknowledged
//! ones again, and heartbeats, so that silence is meaningful.

use super::{Lane, Node};
use crate::dictionary::Subject;
use crate::frame::{Item, Place, Report};
use crate::member::{Generation, Member};
use crate::motion::Fate;
use crate::owner::NodeId;
use crate::page::{Page, Side};
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
        self.shelf.books.see(now);
        self.expire(now);
        // Before updates are sent: an expired lease has none.
        if now.since(self.swept) >= Duration::from_secs(1) {
            self.swept = now;
            self.shelf.go_on_calmly(now);
            self.forget_peers(now);
        }
        for key in self.shelf.sweep(&self.options, now) {
            self.recall_idle(key, now);
        }
        if self.council.on_tick(now, &self.peers) {
            self.tell_views(now);
        }
        self.views_may_have_changed(now);
        if self.council.stays_until(now) < Timestamp::MAX {
            // A fence is ahead, and other clocks' view of it may have changed.
            self.shelf.views_changed();
        }
        self.hand_over(now);
        if now.since(self.synced) >= self.options.sync_interval {
            self.synced = now;
            self.return_all_if_leaving(now);
            self.tell_books(now);
            self.tell_views(now);
            self.break_silence(now);
        }
        self.flush_urgent(now);
    }

    /// Sends this node's votes to the voters they concern, and views to peers that have others.
    pub(super) fn tell_views(&mut self, now: Timestamp) {
        let mut items: BTreeMap<NodeId, Vec<Item>> = BTreeMap::new();
        let me = &self.council.me;
        for motion in self.council.motions() {
            let votes = motion.said_by(me);
            let given_up = motion.fate() == Fate::GivenUp && now.since(motion.since) > Duration::from_secs(5);
            if given_up || votes == (0, 0, 0) {
                continue;
            }
            for voter in motion.voters.iter().filter(|voter| *voter != me) {
                let knows = motion.known & motion.bit(voter) != 0;
                // A voter that has seen that all consent has this node's consent.
                if votes.1 | votes.2 != 0 || motion.seen & motion.bit(voter) == 0 {
                    let view = motion.view.id();
                    let item = if knows {
                        Item::Vote { view, votes }
                    } else {
                        Item::Motion { view: motion.view.clone(), votes }
                    };
                    items.entry(voter.id.clone()).or_default().push(item);
                }
            }
        }
        // Each voter needs to receive from every other that it has seen it, also from those that went on.
        if let Some(motion) = self.council.carried().filter(|motion| motion.said_by(me).1 != 0) {
            let (view, votes) = (motion.view.id(), motion.said_by(me));
            let behind = |voter: &&Member| self.peers.follows(voter, now, |id| motion.view.base == Some(id));
            for voter in motion.voters.iter().filter(|voter| *voter != me).filter(behind) {
                items.entry(voter.id.clone()).or_default().push(Item::Vote { view, votes });
            }
        }
        self.tell_chain(now, &mut items);
        for (to, items) in items {
            self.send(&to, Lane::Sync, &items, now);
        }
    }

    /// Sends each peer the views that it lacks, but not at every interval.
    fn tell_chain(&mut self, now: Timestamp, items: &mut BTreeMap<NodeId, Vec<Item>>) {
        let Some(chain) = self.council.chain() else { return };
        let (head, root) = (chain.head().id(), chain.root());
        let again = self.options.sync_interval * 4;
        let lacks: Vec<NodeId> = self
            .peers
            .heard(now)
            .filter(|(_, peer)| peer.head != Some(head))
            .filter(|(_, peer)| !peer.told.is_some_and(|(id, at)| id == head && now.since(at) < again))
            .map(|(id, _)| id.clone())
            .collect();
        for id in lacks {
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            peer.told = Some((head, now));
            let item = Item::Chain { root: root.clone(), views: chain.lacking(peer.head) };
            items.entry(id).or_default().push(item);
        }
    }

    /// Forgets peers without any state, so that there is room for others.
    fn forget_peers(&mut self, now: Timestamp) {
        let Self { council, peers, links, .. } = self;
        peers.forget(now, |id| council.names(id));
        links.retain(|id, link| {
            let known = peers.get(id).is_some() || council.names(id);
            link.unknown_for = if known { 0 } else { link.unknown_for.saturating_add(1) };
            let never_spoke = link.generation == Generation::default();
            link.unknown_for < UNKNOWN_FOR || never_spoke && peers.may_answer(id)
        });
        council.rules.forget(|id| links.contains_key(id));
        peers.forget_silent(|id| links.contains_key(id));
    }

    /// Sends changes to the peers they concern.
    fn tell_books(&mut self, now: Timestamp) {
        for key in self.due(now) {
            self.tell_book(key, now);
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
    fn tell_book(&mut self, key: Key, now: Timestamp) {
        let Self { shelf, links, peers, options, .. } = self;
        // Without a counter its windows are over.
        let Some(mut book) = shelf.books.get_mut(&key) else { return };
        let (limit, eventual) = (book.limit(), book.counted.is_some());
        let again = options.sync_interval * 3;
        let mut more = false;
        for page in &mut book.pages {
            let place = Place { subject: Subject { key, limit }, view: page.view.id(), tag: page.tag };
            let moment = Page::moment(page.tag, &limit, now);
            let decides = page.decides(&limit, options);
            match &mut page.side {
                Side::Purse(purse) => {
                    let owner = page.view.owner(key);
                    // Sent again once the owner is heard again.
                    let heard = owner.is_some_and(|owner| peers.is_heard(owner, now));
                    let repeats = purse.is_unconfirmed() && purse.reported.ago(now) >= again;
                    if (purse.has_news() || repeats && heard)
                        && let Some(link) = owner.and_then(|owner| links.get_mut(&owner.id))
                    {
                        let report = Report { eventual, ..purse.report() };
                        link.items.push(Item::Report(place, report));
                        purse.told(now);
                    }
                    more |= purse.is_unconfirmed();
                }
                Side::Till(till) => {
                    let members: Vec<_> = till
                        .accounts()
                        .iter()
                        .filter(|account| {
                            let repeats = account.is_unconfirmed() && account.told.ago(now) >= again;
                            (account.has_news || repeats) && peers.is_heard(&account.member, now)
                        })
                        .map(|account| Arc::clone(&account.member))
                        .collect();
                    for member in members {
                        let word = till.word(&limit, &member, (decides, moment));
                        if let Some(link) = links.get_mut(&member.id) {
                            link.items.push(Item::Word(place, word));
                        }
                    }
                    more |= till.accounts().iter().any(super::super::till::Account::is_unconfirmed);
                }
            }
        }
        // Under the lock that it was read under: later spending queues it again.
        book.set_listed(false);
        book.set_listed(more);
    }

    fn break_silence(&mut self, now: Timestamp) {
        // Well below the time after which silence counts.
        let longest = self.options.council.staleness / 3;
        let quiet = self.links.keys().filter(|id| self.peers.is_left_alone(id, now, longest));
        let quiet: Vec<NodeId> = quiet.cloned().collect();
        for peer in quiet {
            self.send(&peer, Lane::Sync, &[], now);
        }
    }

    /// A node that is out of the view returns all its holdings before it leaves.
    fn return_all_if_leaving(&mut self, now: Timestamp) {
        let out = self.council.current(now).is_some_and(|view| !view.has(&self.council.me));
        if !self.council.leaving || !out {
            return;
        }
        let head = self.council.head().map(|head| head.id());
        if self.gave_back == head && self.looks_in > 0 {
            self.looks_in -= 1;
            return;
        }
        (self.gave_back, self.looks_in) = (head, self.shelf.books.len() / LOOKED_AT);
        let Self { shelf, council, options, .. } = self;
        let mut listed = Vec::new();
        for (key, limit, tag) in shelf.books.pages() {
            let Ok(mut book) = shelf.open(council, options, (key, &limit, tag), now) else { continue };
            if let Some(Page { side: Side::Purse(purse), .. }) = book.page(tag)
                && purse.give_up(0) > 0
            {
                listed.push(key);
            }
        }
        for key in listed {
            self.list(key);
        }
    }

    /// Whether a leaving node has nothing left to return, and is out of the view.
    ///
    /// ```
    /// # use hivemind_core::Timestamp;
    /// # use hivemind_mesh::{MeshOptions, testing::seated};
    /// # let now = Timestamp::from_millis(1_700_000_000_000);
    /// assert!(!seated(1, &MeshOptions::default(), now)[0].has_left(now)); // It is not leaving.
    /// ```
    #[must_use]
    pub fn has_left(&self, now: Timestamp) -> bool {
        let now = self.mesh_time(now);
        let without = |view: &std::sync::Arc<crate::view::View>| !view.has(&self.council.me);
        // A node that has just joined is in the newest view before that becomes active.
        let out = self.council.current(now).is_some_and(without) && self.council.head().is_some_and(without);
        // If no member stays, nothing has to be returned.
        let is_last = self.council.nobody_stays(now, &self.peers);
        let head = self.council.head().map(|head| head.id());
        // Holdings are queued when they are checked, and not before.
        let is_told = self.gave_back == head && self.handover.is_done(head);
        let nothing_waits = self.shelf.books.nothing_is_listed() && self.budget.nothing_waits();
        self.council.leaving && (is_last || out && is_told && nothing_waits)
    }
}
