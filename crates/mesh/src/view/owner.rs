//! Rendezvous hashing: which member owns a key. Every member scores every key, and the highest score owns it,
//! so peers with the same list agree without communication.
//!
//! Chosen over a hash ring: nothing to build or tune, and the number of moved keys is minimal. It costs one
//! hash per member, paid when a ledger is opened and not per request. Invariant: when a member leaves, only its
//! own keys move.
//!
//! The score is SipHash-1-3 of the member's name under the key's 128 bits. Those bits
//! are already a keyed hash (docs/decisions/006), so a client cannot choose its owner.

use hivemind_core::store::Key;
use siphasher::sip::SipHasher13;
use std::fmt;
use std::sync::Arc;

/// The longest name of a node.
pub(crate) const LONGEST_NAME: usize = 128;

/// The name of one node, kept across restarts.
///
/// ```
/// use hivemind_mesh::NodeId;
///
/// let name = NodeId::parse("shop-1")?;
/// assert_eq!((name.as_str(), &name), ("shop-1", &NodeId::new("shop-1")));
/// # Ok::<(), hivemind_mesh::UnusableName>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(Arc<str>);

impl NodeId {
    /// A node with a name that is known to be valid; use [`NodeId::parse`] for configured names.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// A node with a configured name, validated so that frames can carry it.
    ///
    /// ```
    /// # use hivemind_mesh::NodeId;
    /// assert!(NodeId::parse("shop-1").is_ok() && NodeId::parse("").is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// [`UnusableName`] if it is empty, or longer than a frame may carry.
    pub fn parse(name: &str) -> Result<Self, UnusableName> {
        let bytes = name.len();
        if (1..=LONGEST_NAME).contains(&bytes) { Ok(Self::new(name)) } else { Err(UnusableName { bytes }) }
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name that is not valid for a node.
///
/// ```
/// use hivemind_mesh::NodeId;
///
/// let error = NodeId::parse("").unwrap_err();
/// assert!(error.to_string().starts_with("node name has 0 bytes; use 1 to"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusableName {
    bytes: usize,
}

impl fmt::Display for UnusableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes } = self;
        write!(f, "node name has {bytes} bytes; use 1 to {LONGEST_NAME}, unique among its peers")
    }
}

impl std::error::Error for UnusableName {}

pub(crate) fn score(key: Key, node: &NodeId) -> u64 {
    let (high, low) = key.bits();
    SipHasher13::new_with_keys(high, low).hash(node.0.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Member;
    use crate::view::{Round, View};
    use hivemind_core::store::{KeySeed, Parts};
    use hivemind_core::{Limit, Period, Timestamp};
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A view with these nodes.
    fn view(nodes: impl IntoIterator<Item = NodeId>) -> View {
        let round = Round { number: 0, proposer: NodeId::new("node-0") };
        View::new(None, Timestamp::EPOCH, round, nodes.into_iter().map(|id| Member::new(id, 1)), [])
    }

    fn named(count: usize) -> View {
        view((0..count).map(|n| NodeId::new(format!("node-{n}"))))
    }

    fn listed_in(view: &View) -> impl Iterator<Item = &NodeId> {
        view.members().iter().map(|member| &member.id)
    }

    fn owner(view: &View, key: Key) -> Option<&NodeId> {
        view.owner(key).map(|member| &member.id)
    }

    /// Keys as the engine makes them, for addresses in a row.
    fn keys(count: u32) -> impl Iterator<Item = Key> {
        let limit = Limit::fixed_window(100, Period::MINUTE);
        let seed = KeySeed::from_cluster_id("spread");
        (0..count).map(move |n| {
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).to_string();
            let entries = [("remote_address", address.as_str())];
            Key::new(&seed, Parts { domain: "api", entries: &entries }, &limit, 0)
        })
    }

    fn shares(members: &View, keys: impl Iterator<Item = Key>) -> BTreeMap<NodeId, u32> {
        let mut shares: BTreeMap<_, _> = listed_in(members).map(|node| (node.clone(), 0)).collect();
        for key in keys {
            *shares.get_mut(owner(members, key).unwrap()).unwrap() += 1;
        }
        shares
    }

    /// The keys are fixed, so this measurement is deterministic: a share deviates by at most five standard
    /// deviations, which at 100,000 keys is 1.1 % of it for 3 nodes, 4.8 % for 10 and 15.8 % for 100. Fails
    /// when the score is the key's low half times the sum of the name's bytes.
    #[test]
    fn every_member_owns_an_even_share() {
        const KEYS: u32 = 100_000;
        for count in [2_usize, 3, 10, 30, 100] {
            let share = 1.0 / f64::from(u32::try_from(count).unwrap());
            let expected = f64::from(KEYS) * share;
            let bound = 5.0 * (expected * (1.0 - share)).sqrt();
            for (node, owned) in shares(&named(count), keys(KEYS)) {
                let off = (f64::from(owned) - expected).abs();
                assert!(off <= bound, "{node} of {count} owns {owned}, expected {expected} +- {bound:.0}");
            }
        }
    }

    #[test]
    fn keys_of_a_leaving_member_spread_over_all_others() {
        let all = named(10);
        let gone = NodeId::new("node-3");
        let rest = view(listed_in(&all).filter(|node| **node != gone).cloned());
        let orphans: Vec<_> = keys(100_000).filter(|key| owner(&all, *key) == Some(&gone)).collect();
        let expected = orphans.len() / 9;
        for (node, inherited) in shares(&rest, orphans.iter().copied()) {
            let inherited = usize::try_from(inherited).unwrap();
            assert!(inherited.abs_diff(expected) < expected / 5, "{node} inherits {inherited} of {expected}");
        }
    }

    /// Peers of different versions must agree: a changed score is a changed protocol.
    #[test]
    fn owners_of_fixed_keys_never_change() {
        let members = named(5);
        let owners: Vec<_> = [(0, 0), (1, 0), (0, 1), (7, 11), (u64::MAX, u64::MAX)]
            .map(|(high, low)| owner(&members, Key::from_bits(high, low)).unwrap().as_str().to_owned())
            .into();
        assert_eq!(owners, ["node-3", "node-1", "node-2", "node-1", "node-3"]);
    }

    /// Fails when any name is accepted, including names whose frames cannot be read.
    #[test]
    fn node_name_needs_1_to_128_bytes() {
        for (bytes, is_good) in [(0, false), (1, true), (128, true), (129, false)] {
            let name = "n".repeat(bytes);
            assert_eq!(NodeId::parse(&name).map(|id| id.as_str() == name).ok(), is_good.then_some(true));
        }
        let refused = NodeId::parse(&"n".repeat(300)).unwrap_err().to_string();
        assert!(refused.contains("300 bytes") && refused.contains("1 to 128"), "{refused}");
    }

    #[test]
    fn no_members_own_nothing_and_one_member_owns_all() {
        assert_eq!(owner(&view([]), Key::from_bits(1, 2)), None);
        let alone = named(1);
        assert!(keys(100).all(|key| owner(&alone, key) == listed_in(&alone).next()));
    }

    fn any_key() -> impl Strategy<Value = Key> {
        // Small numbers too: a peer may send any key, not only well distributed ones.
        prop_oneof![any::<(u64, u64)>(), (0..4_u64, 0..4_u64)]
            .prop_map(|(high, low)| Key::from_bits(high, low))
    }

    proptest! {
        /// Fails without sorting, and without removing duplicates.
        #[test]
        fn order_and_duplicates_of_members_do_not_matter(
            names in vec("[a-d]{0,3}", 1..12),
            seed in any::<u64>(),
            key in any_key(),
        ) {
            let nodes: Vec<_> = names.iter().map(|name| NodeId::new(name.as_str())).collect();
            let mut shuffled = [nodes.clone(), nodes.clone()].concat();
            shuffled.sort_by_key(|node| SipHasher13::new_with_keys(seed, 0).hash(node.as_str().as_bytes()));
            let (listed, shuffled) = (view(nodes), view(shuffled));
            prop_assert_eq!(owner(&listed, key), owner(&shuffled, key));
            prop_assert_eq!(listed, shuffled);
        }

        /// Fails when `hash(key) % members` replaces the highest score.
        #[test]
        fn leaving_member_moves_only_its_own_keys(
            names in btree_set("[a-z]{1,4}", 2..20),
            leaver in any::<prop::sample::Index>(),
            keys in vec(any_key(), 1..50),
        ) {
            let before = view(names.iter().map(|name| NodeId::new(name.as_str())));
            let leaver = NodeId::new(names.iter().nth(leaver.index(names.len())).unwrap().as_str());
            let after = view(listed_in(&before).filter(|node| **node != leaver).cloned());
            for key in keys {
                let (was, is) = (owner(&before, key), owner(&after, key));
                prop_assert!(was == is || was == Some(&leaver), "{key:?} moved from {was:?} to {is:?}");
                prop_assert_ne!(is, Some(&leaver));
            }
        }
    }
}
