//! Agreement on members without a leader and without correct clocks: nodes that vote never begin one window in
//! two views.
//!
//! Any member may propose the next view, to take effect some time later. Every living member of the present view must
//! consent; a member that consented begins no window from that time on until it knows how the vote ended
//! (docs/decisions/012). A node that is cut off in the middle of a vote therefore has nothing to begin a window
//! with. A node that is cut off at another time stops the others from changing the view, and keeps its share. A
//! vote that hangs on dead members is abandoned for a later one, by all living members together.

mod buckets;
pub(crate) mod handoff_log;
mod inheritance;
pub(crate) mod peers;
mod propose;
mod received_views;
pub(crate) mod rule_versions;
mod vote;
mod windows;

use crate::membership::handoff_log::HandoffLog;
use crate::membership::peers::Peers;
use crate::membership::rule_versions::RuleVersions;
use crate::view::Member;
use crate::view::proposal::Proposal;
#[cfg(test)]
use crate::view::view_log::Root;
use crate::view::view_log::ViewLog;
use crate::view::{Round, View, ViewId};
pub(crate) use buckets::{BucketMove, BucketStart};
use hivemind_core::Timestamp;
use std::sync::Arc;
use std::time::Duration;
pub(crate) use windows::WindowView;

/// How many times the usual lead `effective_at` may be ahead of the others' clocks, and half of that for a window that
/// begins: a clock further ahead is wrong, and would delay all nodes until its time has come.
const MOST_LEADS: u32 = 4;
/// The most overlaps that are remembered, so that each is counted once.
const MOST_OVERLAPS: usize = 64;

/// How views are agreed.
///
/// ```
/// use hivemind_mesh::{MembershipOptions, MeshOptions};
///
/// // For a node that must never found a mesh.
/// let membership = MembershipOptions { found_after: None, ..MembershipOptions::default() };
/// let options = MeshOptions { membership, ..MeshOptions::default() };
/// assert!(options.membership.dead_after > options.membership.staleness);
/// ```
#[derive(Clone, Debug)]
pub struct MembershipOptions {
    /// How far ahead of its effect a view is proposed.
    pub view_lead: Duration,
    /// How long a vote may take before a voter releases it.
    pub patience: Duration,
    /// How long the members wait for each other to propose: the second by name waits once, the third twice.
    pub stagger: Duration,
    /// After which silence a peer counts as unreachable.
    pub staleness: Duration,
    /// After which silence a peer that discovery no longer knows counts as dead.
    pub dead_after: Duration,
    /// How long to look for a mesh before founding one; never if there is none.
    pub found_after: Option<Duration>,
    /// The most members of a view.
    pub most_members: usize,
}

impl Default for MembershipOptions {
    fn default() -> Self {
        Self {
            view_lead: Duration::from_secs(2),
            patience: Duration::from_millis(1_500),
            stagger: Duration::from_millis(500),
            staleness: Duration::from_millis(500),
            dead_after: Duration::from_secs(3),
            found_after: Some(Duration::from_secs(3)),
            most_members: 100,
        }
    }
}

/// The known views, and this node's promises.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) me: Member,
    options: MembershipOptions,
    started: Timestamp,
    view_log: Option<ViewLog>,
    proposals: Vec<Proposal>,
    /// The proposals this node consented to and that are not decided yet. More than one only where all but the
    /// last hang on dead members: those are not carried out here any more, whatever is received.
    bound: Vec<ViewId>,
    /// The proposal that led to the newest view; sent to voters that do not know its result.
    carried: Option<Proposal>,
    /// Windows that start within it begin nowhere: dead members may have begun them in an abandoned view.
    void: Option<(Timestamp, Timestamp)>,
    /// No proposal of this round or an earlier one gets consent any more.
    floor: Option<Round>,
    /// The start of the latest window that began here: no view may take effect before it.
    latest_begun: Option<Timestamp>,
    /// How far ahead windows may begin, by the others' clocks.
    horizon: Option<Timestamp>,
    /// How far the later median of all clocks is ahead of this node's, in nanoseconds, when frames were last
    /// received. Buckets move from one view to the next by it.
    lead: i64,
    /// When the view that buckets are in took effect: they do not go back.
    passed: Timestamp,
    /// Handoffs of former owners for buckets that moved to this generation.
    pub(crate) handed: HandoffLog,
    /// When a view that removed this generation took effect: it has left its shares of windows that began before then
    /// to others.
    pub(crate) left: Option<Timestamp>,
    /// Since when the members differ from those of the view.
    differs_since: Option<Timestamp>,
    /// How many votes in a row failed, and until when no other is called.
    failed: u32,
    rests_until: Option<Timestamp>,
    pub(crate) leaving: bool,
    pub(crate) rules: RuleVersions,
    /// How often two views were found for the same windows.
    pub(crate) overlaps: u64,
    /// The overlaps counted so far.
    seen_overlaps: Vec<Overlap>,
    /// Increases whenever the view log or a promise changes, so that other parts need not compare it.
    pub(crate) version: u64,
    /// Increases whenever the view log is replaced by another: allowance held under it is void.
    pub(crate) upheavals: u64,
}

/// Two views that were active for the same windows, by how they were discovered.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Overlap {
    /// Another mesh, by the id of its first view.
    Mesh(ViewId),
    /// A fork of this mesh, by a view of it.
    Fork(ViewId),
    /// A generation that was declared dead and sends frames.
    Generation(Member),
    /// A window that began here far ahead of its time.
    Window(Timestamp),
}

impl Membership {
    pub(crate) fn new(me: Member, options: MembershipOptions, now: Timestamp) -> Self {
        Self {
            me,
            options,
            started: now,
            view_log: None,
            proposals: Vec::new(),
            bound: Vec::new(),
            carried: None,
            void: None,
            floor: None,
            latest_begun: None,
            horizon: None,
            lead: 0,
            passed: Timestamp::EPOCH,
            handed: HandoffLog::default(),
            left: None,
            differs_since: None,
            failed: 0,
            rests_until: None,
            leaving: false,
            rules: RuleVersions::default(),
            overlaps: 0,
            seen_overlaps: Vec::new(),
            version: 0,
            upheavals: 0,
        }
    }

    pub(crate) fn view_log(&self) -> Option<&ViewLog> {
        self.view_log.as_ref()
    }

    pub(crate) fn head(&self) -> Option<&Arc<View>> {
        self.view_log.as_ref().map(ViewLog::head)
    }

    pub(crate) fn proposals(&self) -> &[Proposal] {
        &self.proposals
    }

    /// The proposal that led to the newest view, as far as it is known here.
    pub(crate) fn carried(&self) -> Option<&Proposal> {
        self.carried.as_ref()
    }

    /// Whether this generation of this node is a member of the newest view.
    pub(crate) fn is_member(&self) -> bool {
        self.head().is_some_and(|head| head.has(&self.me))
    }

    /// Whether a name is in a remembered or proposed view.
    pub(crate) fn names(&self, id: &crate::view::NodeId) -> bool {
        let views = self.view_log.iter().flat_map(ViewLog::iter).map(AsRef::as_ref);
        let proposed = self.proposals.iter().map(|proposal| &proposal.view);
        views.chain(proposed).any(|view| view.members.iter().any(|member| member.id == *id))
    }

    /// Handles the passing of time. Returns whether there is something new to send to peers.
    pub(crate) fn on_tick(&mut self, now: Timestamp, peers: &Peers) -> bool {
        self.look_at_clocks(now, peers);
        self.leave_the_dead(now, peers);
        self.found_if_alone(now, peers);
        let mut changed = false;
        for index in 0..self.proposals.len() {
            changed |= self.vote(index, now, peers);
        }
        changed |= self.settle(now);
        changed | self.propose(now, peers)
    }

    /// The clock was set back: shifts all times back.
    pub(crate) fn set_back(&mut self, earlier: impl Fn(&mut Timestamp)) {
        earlier(&mut self.started);
        self.differs_since.iter_mut().chain(&mut self.rests_until).for_each(&earlier);
        self.proposals.iter_mut().for_each(|proposal| earlier(&mut proposal.since));
        self.rules.set_back(earlier);
    }

    /// How far ahead of the others' clocks is too far.
    fn too_far(&self, now: Timestamp, peers: &Peers) -> Timestamp {
        let latest = peers.others_time(now).map_or(now, |time| time.max(now));
        latest.saturating_add(self.options.view_lead.saturating_mul(MOST_LEADS))
    }

    fn look_at_clocks(&mut self, now: Timestamp, peers: &Peers) {
        let lead = self.options.view_lead.saturating_mul(MOST_LEADS / 2);
        self.horizon = peers.others_time(now).map(|time| time.saturating_add(lead));
        if self.horizon.is_some() {
            self.lead = peers.later_time(now).as_nanos().wrapping_sub(now.as_nanos()).cast_signed();
        }
        // A window that began by a wrong clock must not delay every view until its time has come.
        let too_far = peers.later_time(now).saturating_add(lead * 2);
        if let Some(begun) = self.latest_begun.filter(|begun| *begun > too_far) {
            self.latest_begun = None;
            self.count_overlap(Overlap::Window(begun));
        }
    }

    /// Counts each overlap once, however often it is reported.
    fn count_overlap(&mut self, overlap: Overlap) {
        if self.seen_overlaps.contains(&overlap) {
            return;
        }
        if self.seen_overlaps.len() >= MOST_OVERLAPS {
            self.seen_overlaps.remove(0);
        }
        self.seen_overlaps.push(overlap);
        self.overlaps += 1;
    }

    fn adopt(&mut self, view: View) {
        let was_taken_for_dead = view.gone.contains(&self.me);
        let (id, effective_at) = (view.id(), view.effective_at);
        let Some(view_log) = self.view_log.as_mut() else { return };
        if !view_log.append(view) {
            return;
        }
        if was_taken_for_dead {
            // Windows may have begun here in the old view that began elsewhere in this one.
            let me = self.me.clone();
            self.count_overlap(Overlap::Generation(me));
        }
        // The result of an abandoned vote at dead members is unknown.
        let abandoned = self.proposals.iter().filter(|proposal| self.bound.contains(&proposal.view.id()));
        let from = abandoned
            .filter(|proposal| proposal.view.id() != id)
            .map(|proposal| proposal.view.effective_at)
            .min();
        if let Some(from) = from.filter(|from| *from < effective_at) {
            self.void = Some((from, effective_at));
        }
        self.carried = self.proposals.iter().find(|proposal| proposal.view.id() == id).cloned();
        self.proposals.clear();
        self.bound.clear();
        (self.floor, self.differs_since) = (None, None);
        (self.failed, self.rests_until) = (0, None);
        self.version += 1;
    }

    #[cfg(test)]
    pub(crate) fn root(&self) -> Option<&Root> {
        self.view_log.as_ref().map(ViewLog::root)
    }
}

#[cfg(test)]
mod tests;
