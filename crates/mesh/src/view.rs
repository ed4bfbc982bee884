//! A view: the members that share keys, and the fence, the moment from which windows
//! begin in it. Everything that is split is split over a view, so two nodes that
//! begin one window in two views would share out its limit twice. Which view a window
//! begins in is therefore agreed before the fence (`council`), and a view never changes:
//! its name is a hash of all it says and of the view it follows.

use crate::member::Member;
use crate::owner::NodeId;
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The name of a view: a hash of what it says and of what it follows.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{MeshOptions, NodeId, testing::seated};
///
/// let nodes = seated(2, &MeshOptions::default(), Timestamp::EPOCH);
/// let names: Vec<_> = nodes.iter().map(|node| node.view().map(|view| view.id())).collect();
/// assert!(names[0].is_some() && names[0] == names[1]); // They agree.
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewId(pub u64);

/// Who proposed a view, and which of its attempts it was. Of two attempts the later one is larger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Round {
    /// Counts up for each view that could not be agreed on.
    pub number: u32,
    /// Whose it is: no two nodes have one round.
    pub proposer: NodeId,
}

/// A view as the next one follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    pub(crate) id: ViewId,
    pub(crate) height: u64,
}

/// The members that share keys from a fence on.
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
/// println!("{:?} from {:?} on", view.id(), view.fence());
/// assert_eq!(view.owner(Key::from_bits(7, 11)), Some(node.member()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    id: ViewId,
    /// The view before it; none for the first, which somebody founded.
    pub(crate) base: Option<ViewId>,
    /// How many views came before it in its mesh, so that old and foreign can be told apart.
    pub(crate) height: u64,
    pub(crate) fence: Timestamp,
    pub(crate) round: Round,
    pub(crate) members: Box<[Member]>,
    /// Members of the base that are dead as far as discovery can tell: nobody waits for their consent.
    pub(crate) gone: Box<[Member]>,
}

impl View {
    /// The most members of a view: their votes are counted in the bits of a word.
    pub const MOST_MEMBERS: usize = 128;

    pub fn new(
        base: Option<Base>,
        fence: Timestamp,
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
        // A name that is in it twice is the name of its last run.
        members.reverse();
        members.dedup_by(|one, kept| one.id == kept.id);
        members.reverse();
        let mut view = Self {
            id: ViewId(0),
            base: base.map(|base| base.id),
            height: base.map_or(0, |base| base.height.saturating_add(1)),
            fence,
            round,
            members: members.into_boxed_slice(),
            gone: gone.into_boxed_slice(),
        };
        view.id = view.digest();
        view
    }

    /// The first view of a mesh: all windows begin in it, those that run already too.
    pub(crate) fn founded(by: Member, now: Timestamp) -> Self {
        // The moment makes its name its own; the fence is before every window.
        let round = Round { number: 0, proposer: by.id.clone() };
        let mut view = Self::new(None, Timestamp::EPOCH, round, [by], []);
        let mut hash = SipHasher13::new_with_keys(view.id.0, now.as_nanos());
        hash.write(b"founded");
        view.id = ViewId(hash.finish());
        view
    }

    /// A view as a peer told it. A founded one's name cannot be recomputed and is taken as told.
    pub(crate) fn told(self, id: ViewId) -> Option<Self> {
        let is_so = self.base.is_none() || self.id == id;
        is_so.then_some(Self { id, ..self })
    }

    fn digest(&self) -> ViewId {
        let mut hash = SipHasher13::new_with_keys(0x6869_7665_6d69_6e64, 0x7669_6577);
        hash.write_u64(self.base.map_or(0, |base| base.0));
        hash.write_u64(self.height);
        hash.write_u64(self.fence.as_nanos());
        hash.write_u32(self.round.number);
        let mut name = |id: &NodeId, generation: u64| {
            hash.write_usize(id.as_str().len());
            hash.write(id.as_str().as_bytes());
            hash.write_u64(generation);
        };
        name(&self.round.proposer, 0);
        self.members.iter().for_each(|member| name(&member.id, member.generation.0));
        name(&NodeId::new(""), 0); // What follows are not members.
        self.gone.iter().for_each(|member| name(&member.id, member.generation.0));
        ViewId(hash.finish())
    }

    /// What the next view follows.
    #[must_use]
    pub fn as_base(&self) -> Base {
        Base { id: self.id, height: self.height }
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> ViewId {
        self.id
    }

    /// From when on windows begin in it.
    #[must_use]
    pub fn fence(&self) -> Timestamp {
        self.fence
    }

    /// Its members, in the order of their names.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether this very run of a node is in it.
    #[must_use]
    pub fn has(&self, member: &Member) -> bool {
        self.members.binary_search(member).is_ok()
    }

    /// The member that owns `key`: the run of it that is in this view, and no other.
    #[must_use]
    pub fn owner(&self, key: Key) -> Option<&Member> {
        self.members.iter().max_by_key(|member| crate::owner::score(key, &member.id))
    }
}
