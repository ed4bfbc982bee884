//! A view: the members that share keys, and `effective_at`, the time from which windows begin in it. Everything that is
//! split is split over a view: two nodes that begin one window in two views would distribute its limit twice. Nodes
//! therefore agree in advance in which view a window begins (`membership`), and a view never changes: its id is a hash
//! of its content and of the view it follows.

mod member;
pub(crate) mod owner;
pub mod proposal;
pub mod view_log;

pub use member::{Generation, Member};
pub use owner::{NodeId, UnusableName};

use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The id of a view: a hash of its content and of the view it follows.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{MeshOptions, NodeId, testing::mesh_nodes};
///
/// let nodes = mesh_nodes(2, &MeshOptions::default(), Timestamp::EPOCH);
/// let names: Vec<_> = nodes.iter().map(|node| node.view().map(|view| view.id())).collect();
/// assert!(names[0].is_some() && names[0] == names[1]); // They agree.
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewId(pub u64);

/// The proposer of a view and the number of its attempt. Of two attempts the later one is larger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Round {
    /// Increases with each view that was not agreed.
    pub number: u32,
    /// The proposer: two nodes never have the same round.
    pub proposer: NodeId,
}

/// A view as the base of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    pub(crate) id: ViewId,
    pub(crate) height: u64,
}

/// The members that share keys from a time on.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_core::store::Key;
/// use hivemind_mesh::{MeshOptions, Node, NodeId, View};
///
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let mut node = Node::new(NodeId::parse("a")?, 1, MeshOptions::default(), now);
/// node.found(now);
/// let view = node.view().ok_or("no view")?;
/// assert!(view.has(node.member()) && view.members().len() <= View::MOST_MEMBERS);
/// println!("{:?} from {:?} on", view.id(), view.effective_at());
/// assert_eq!(view.owner(Key::from_bits(7, 11)), Some(node.member()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    id: ViewId,
    /// The previous view; none for the founding view.
    pub(crate) base: Option<ViewId>,
    /// The number of earlier views in this mesh; distinguishes old views from foreign ones.
    pub(crate) height: u64,
    pub(crate) effective_at: Timestamp,
    pub(crate) round: Round,
    pub(crate) members: Box<[Member]>,
    /// Members of the base that are dead as far as discovery reports; their consent is not needed.
    pub(crate) gone: Box<[Member]>,
}

impl View {
    /// The most members of a view: each vote is one bit of a 128-bit number.
    pub const MOST_MEMBERS: usize = 128;

    pub fn new(
        base: Option<Base>,
        effective_at: Timestamp,
        round: Round,
        members: impl IntoIterator<Item = Member>,
        gone: impl IntoIterator<Item = Member>,
    ) -> Self {
        let sorted = |members: &mut Vec<Member>| {
            members.sort_unstable();
            members.dedup();
            members.truncate(Self::MOST_MEMBERS);
        };
        let (mut members, mut gone) =
            (members.into_iter().collect::<Vec<_>>(), gone.into_iter().collect::<Vec<_>>());
        sorted(&mut members);
        sorted(&mut gone);
        // A name listed twice counts as its latest generation.
        members.reverse();
        members.dedup_by(|one, kept| one.id == kept.id);
        members.reverse();
        let mut view = Self {
            id: ViewId(0),
            base: base.map(|base| base.id),
            height: base.map_or(0, |base| base.height.saturating_add(1)),
            effective_at,
            round,
            members: members.into_boxed_slice(),
            gone: gone.into_boxed_slice(),
        };
        view.id = view.digest();
        view
    }

    /// The first view of a mesh: all windows begin in it, including those already running.
    pub(crate) fn founded(by: Member, now: Timestamp) -> Self {
        // The time makes its id unique; it is effective before every window.
        let round = Round { number: 0, proposer: by.id.clone() };
        let mut view = Self::new(None, Timestamp::EPOCH, round, [by], []);
        let mut hash = SipHasher13::new_with_keys(view.id.0, now.as_nanos());
        hash.write(b"founded");
        view.id = ViewId(hash.finish());
        view
    }

    /// A view as a peer sent it. The id of a founding view cannot be recomputed and is accepted as sent.
    pub(crate) fn received(self, id: ViewId) -> Option<Self> {
        let is_so = self.base.is_none() || self.id == id;
        is_so.then_some(Self { id, ..self })
    }

    fn digest(&self) -> ViewId {
        let mut hash = SipHasher13::new_with_keys(0x6869_7665_6d69_6e64, 0x7669_6577);
        hash.write_u64(self.base.map_or(0, |base| base.0));
        hash.write_u64(self.height);
        hash.write_u64(self.effective_at.as_nanos());
        hash.write_u32(self.round.number);
        let mut name = |id: &NodeId, generation: u64| {
            hash.write_usize(id.as_str().len());
            hash.write(id.as_str().as_bytes());
            hash.write_u64(generation);
        };
        name(&self.round.proposer, 0);
        self.members.iter().for_each(|member| name(&member.id, member.generation.0));
        name(&NodeId::new(""), 0); // The following entries are not members.
        self.gone.iter().for_each(|member| name(&member.id, member.generation.0));
        ViewId(hash.finish())
    }

    /// This view as the base of the next one.
    #[must_use]
    pub fn as_base(&self) -> Base {
        Base { id: self.id, height: self.height }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> ViewId {
        self.id
    }

    /// The time from which windows begin in it.
    #[must_use]
    pub fn effective_at(&self) -> Timestamp {
        self.effective_at
    }

    /// Its members, sorted by name.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether this generation of a node is a member.
    #[must_use]
    pub fn has(&self, member: &Member) -> bool {
        self.members.binary_search(member).is_ok()
    }

    /// The member that owns `key`: the generation in this view and no other.
    #[must_use]
    pub fn owner(&self, key: Key) -> Option<&Member> {
        self.members.iter().max_by_key(|member| owner::score(key, &member.id))
    }
}
