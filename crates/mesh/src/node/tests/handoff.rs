//! Levels that a former owner of a bucket sends to the next one: which are accepted, and how often.

use super::*;
use crate::frame::BucketLevels;

/// Five per hour: a bucket that begins empty refuses for twelve minutes.
fn slow() -> Limit {
    Limit::token_bucket(Rate::new(5, Period::HOUR).expect("a rate"), 5).expect("a bucket")
}

fn keys(count: u64) -> impl Iterator<Item = Key> {
    (0..count).map(|bits| Key::from_bits(bits, bits.wrapping_mul(SECRET)))
}

/// Three nodes whose views were agreed, the last of which is new; and a key that moved to it from the first.
fn joined() -> (Mesh, Key) {
    let mut mesh = Mesh::new(2, &MeshOptions { handoff: false, ..strict() });
    let newcomer = Node::new(NodeId::new("n002"), 1, strict(), mesh.now);
    mesh.nodes.push(newcomer);
    for index in 0..3 {
        let others: Vec<NodeId> = mesh.nodes.iter().map(|node| node.member().id.clone()).collect();
        for other in others {
            mesh.nodes[index].meet(other);
        }
    }
    let before = mesh.nodes[0].view().expect("in a view").clone();
    mesh.pass(6_000);
    let view = mesh.nodes[2].view().expect("it joined").clone();
    assert_eq!(view.members().len(), 3);
    let goes = |key: &Key| {
        before.owner(*key) == Some(mesh.nodes[0].member()) && view.owner(*key) == Some(mesh.nodes[2].member())
    };
    let key = keys(1_000).find(goes).expect("one of them");
    (mesh, key)
}

/// Sender, total, index and level.
type LevelMessage = (usize, u32, u32, u32);

/// Each is sent instead of the last owner's handoff, which here sends nothing; then it is accepted or not.
///
/// Fails when any sender is accepted, a level above the burst, a repetition, another order, or another total
/// than the first one.
#[test]
fn level_is_accepted_once_and_from_the_last_owner_only() {
    let limit = slow();
    let levels_item = |(mesh, key): (&Mesh, Key), count, first, level| {
        let counter = CounterRef { key, limit };
        let view = mesh.nodes[2].view().expect("it joined").id();
        Item::Levels(BucketLevels {
            view,
            since: Timestamp::EPOCH,
            count,
            first,
            each: vec![(counter, level)],
        })
    };
    // The handoffs, and how many requests are admitted then.
    let cases: [(&[LevelMessage], usize); 8] = [
        (&[], 0),
        (&[(0, 1, 0, 3)], 3),
        (&[(1, 1, 0, 3)], 0),
        (&[(0, 1, 0, 6)], 0),
        (&[(0, 1, 0, 2), (0, 1, 0, 5)], 2),
        (&[(0, 2, 1, 3)], 0),
        (&[(0, 2, 0, 3), (0, 9, 1, 5)], 3),
        (&[(0, 0, 0, 3)], 5),
    ];
    for (messages, expected) in cases {
        let (mut mesh, key) = joined();
        for (from, count, first, level) in messages {
            let item = levels_item((&mesh, key), *count, *first, *level);
            mesh.forge((*from, 2), None, &[item]);
        }
        assert_eq!(mesh.passed(2, 9, &[charge(key, &limit)]), expected, "{messages:?}");
        for (from, count, first, level) in messages {
            let item = levels_item((&mesh, key), *count, *first, *level);
            mesh.forge((*from, 2), None, &[item]);
        }
        assert_eq!(mesh.passed(2, 9, &[charge(key, &limit)]), 0, "{messages:?}, sent again");
    }
}
