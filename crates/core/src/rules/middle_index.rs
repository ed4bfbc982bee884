//! Radix tree of the texts between the stars of patterns: finds all texts that occur in a value.
//!
//! It grows with each added pattern and is complete after each, so that no request has to build anything. A search
//! descends from each position of the value. Where the next byte fits no text, it goes on at the next position, so for
//! texts that do not repeat themselves it costs a few steps per byte, however many texts there are.

/// The texts, each with the patterns that need it.
#[derive(Clone, Debug, Default)]
pub(super) struct MiddleIndex {
    nodes: Vec<IndexNode>,
}

#[derive(Clone, Debug, Default)]
struct IndexNode {
    /// The bytes between the parent and this node.
    label: Box<[u8]>,
    /// By the first byte of their labels, in order.
    children: Vec<(u8, u32)>,
    /// The patterns whose text ends here, by position in the order of declaration.
    places: Vec<u32>,
}

const ROOT: usize = 0;

impl MiddleIndex {
    /// Adds the text of a pattern.
    pub(super) fn add(&mut self, text: &str, place: u32) {
        if self.nodes.is_empty() {
            self.nodes.push(IndexNode::default());
        }
        let (mut at, mut rest) = (ROOT, text.as_bytes());
        while let Some(&first) = rest.first() {
            let found =
                self.node(at).and_then(|node| node.position(first).ok().and_then(|index| node.child(index)));
            let Some(child) = found else {
                at = self.attach(at, rest);
                break;
            };
            let shared = self.node(child).map_or(0, |node| common_prefix(&node.label, rest));
            if self.node(child).is_some_and(|node| shared < node.label.len()) {
                self.split(child, shared);
            }
            rest = rest.get(shared..).unwrap_or_default();
            at = child;
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.places.push(place);
        }
    }

    /// Calls `found` for each pattern whose text occurs in `value`, as often as it occurs.
    pub(super) fn search(&self, value: &str, mut found: impl FnMut(u32)) {
        let mut rest = value.as_bytes();
        loop {
            self.search_here(rest, &mut found);
            match rest {
                [_, after @ ..] => rest = after,
                [] => return,
            }
        }
    }

    /// The texts that `rest` begins with.
    fn search_here(&self, mut rest: &[u8], found: &mut impl FnMut(u32)) {
        let mut node = self.node(ROOT);
        while let Some(here) = node {
            here.places.iter().copied().for_each(&mut *found);
            let Some(first) = rest.first() else { return };
            node = here
                .position(*first)
                .ok()
                .and_then(|index| here.child(index))
                .and_then(|child| self.node(child));
            let Some(after) = node.and_then(|node| rest.strip_prefix(&*node.label)) else { return };
            rest = after;
        }
    }

    fn node(&self, at: usize) -> Option<&IndexNode> {
        self.nodes.get(at)
    }

    /// Adds a child for the rest of a text and returns it.
    fn attach(&mut self, parent: usize, label: &[u8]) -> usize {
        let new = self.nodes.len();
        self.nodes.push(IndexNode { label: label.into(), ..IndexNode::default() });
        self.link(parent, label, new);
        new
    }

    fn link(&mut self, parent: usize, label: &[u8], child: usize) {
        // There are fewer nodes than bytes of patterns, and those are bounded.
        let (Some(&first), Ok(number)) = (label.first(), u32::try_from(child)) else { return };
        if let Some(node) = self.nodes.get_mut(parent) {
            match node.position(first) {
                Ok(index) => node.children.get_mut(index).into_iter().for_each(|(_, known)| *known = number),
                Err(index) => node.children.insert(index, (first, number)),
            }
        }
    }

    /// Splits a node after the first bytes of its label: it keeps them, and a new child gets everything else.
    fn split(&mut self, at: usize, kept: usize) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        let (start, end) = node.label.split_at(kept);
        let (start, end): (Box<[u8]>, Box<[u8]>) = (start.into(), end.into());
        let lower = IndexNode {
            label: end.clone(),
            children: std::mem::take(&mut node.children),
            places: std::mem::take(&mut node.places),
        };
        node.label = start;
        let new = self.nodes.len();
        self.nodes.push(lower);
        self.link(at, &end, new);
    }
}

impl IndexNode {
    fn position(&self, first: u8) -> Result<usize, usize> {
        self.children.binary_search_by_key(&first, |(byte, _)| *byte)
    }

    fn child(&self, index: usize) -> Option<usize> {
        self.children.get(index).and_then(|(_, child)| usize::try_from(*child).ok())
    }
}

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::MiddleIndex;
    use proptest::prelude::*;

    proptest! {
        // Fails when `split` keeps the places of the node, and when `search` skips a position.
        #[test]
        fn search_finds_each_text_as_often_as_it_occurs(
            texts in prop::collection::vec("[abé]{0,5}", 0..30),
            value in "[abé]{0,12}",
        ) {
            let mut index = MiddleIndex::default();
            for (place, text) in (0..).zip(&texts) {
                index.add(text, place);
            }
            let mut found = Vec::new();
            index.search(&value, |place| found.push(place));
            found.sort_unstable();
            let starts = 0..=value.len();
            let occurs = |text: &String| starts.clone().filter(|at| value.as_bytes()[*at..].starts_with(text.as_bytes())).count();
            let expected = (0..).zip(&texts).flat_map(|(place, text)| std::iter::repeat_n(place, occurs(text)));
            prop_assert_eq!(found, expected.collect::<Vec<u32>>());
        }
    }

    // Fails with one node per byte.
    #[test]
    fn index_has_at_most_two_nodes_per_text() {
        let mut index = MiddleIndex::default();
        for place in 0..10_000 {
            index.add(&format!("/a-long-and-common-prefix/of-all-texts/{place:05}/and-a-common-end"), place);
        }
        assert!(index.nodes.len() <= 20_001, "{}", index.nodes.len());
    }
}
