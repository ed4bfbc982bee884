//! Round trips of all frames. Arbitrary bytes are rejected or read, without a panic.

mod surveys;

use super::asks::ACTIONS;
use super::*;
use crate::frame::{Levels, Reply, Report, Want, Word};
use crate::member::Member;
use crate::owner::NodeId;
use crate::shares::Shares;
use crate::view::{Base, Round, View};
use hivemind_core::algorithm::Action;
use hivemind_core::store::{Key, Outcome, Verdict};
use hivemind_core::testing::{cases, limits};
use hivemind_core::{Limit, Period};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

fn header() -> impl Strategy<Value = Header> {
    let head = prop_oneof![Just(None), any::<u64>().prop_map(|id| Some(ViewId(id)))];
    let echo = any::<(u64, u64)>().prop_map(|(time_us, held_us)| Some(Echo { time_us, held_us }));
    let slew = prop_oneof![Just(0), any::<i64>()];
    let runs = (any::<u64>(), any::<u64>(), prop_oneof![Just(None), echo], slew);
    (runs, 0..u64::MAX / 2_000_000, head, any::<bool>(), any::<u32>()).prop_map(
        |((generation, to, echo, slew_us), us, head, leaving, known)| Header {
            generation: Generation(generation),
            time: Timestamp::from_nanos(us * 1_000),
            head,
            leaving,
            rules: known / 3,
            dictionary: to % 1_000,
            known,
            known_of: generation % 1_000,
            to: Generation(to),
            echo,
            slew_us,
        },
    )
}

fn place() -> impl Strategy<Value = Place> {
    // Few keys and views, so that interner entries and the newest view are used again.
    (0..3_u64, limits(), 0..3_u64, any::<u64>()).prop_map(|(key, limit, view, tag)| Place {
        subject: Subject { key: Key::from_bits(key, key), limit },
        view: ViewId(view),
        tag: if matches!(limit, Limit::TokenBucket(_)) { 0 } else { tag },
    })
}

fn report(bucket: bool) -> impl Strategy<Value = Report> {
    (any::<[u64; 3]>(), 0..u64::MAX >> 1, 0..3_u64, 0..3_u64, 0..2_u64, 0..3_u64, any::<bool>()).prop_map(
        move |([serial, spent, returned], granted_seen, refused, refunded, given, owed, eventual)| Report {
            serial: if bucket { serial } else { 0 },
            spent,
            returned,
            granted_seen,
            refused,
            refunded,
            given,
            owed,
            birth: given << 40,
            eventual,
        },
    )
}

fn word(bucket: bool) -> impl Strategy<Value = Word> {
    (any::<u64>(), 0..u64::MAX >> 2, any::<u64>(), any::<i64>(), any::<u64>(), any::<bool>(), 0..3_u64)
        .prop_map(move |(serial, granted, settled_seen, left, others, recall, resets)| Word {
            serial: if bucket { serial } else { 0 },
            granted,
            settled_seen,
            left,
            others,
            recall,
            resets,
        })
}

fn want() -> impl Strategy<Value = Want> {
    prop_oneof![
        (any::<u64>(), any::<u64>()).prop_map(|(need, ahead)| Want::Lend { need, ahead }),
        (proptest::sample::select(ACTIONS.to_vec()), any::<u64>())
            .prop_map(|(action, cost)| Want::Do { action, cost }),
        (proptest::sample::select(ACTIONS.to_vec()), any::<u64>()).prop_map(|(action, cost)| match action {
            Action::Peek => Want::Survey,
            action => Want::Tell { action, cost },
        }),
        Just(Want::Look),
        Just(Want::Forget),
        any::<u64>().prop_map(|of| Want::Undo { of }),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let outcome = prop_oneof![
        Just(Outcome::Admitted),
        Just(Outcome::Refused { retry_after: None }),
        any::<u64>().prop_map(|nanos| Outcome::Refused { retry_after: Some(Duration::from_nanos(nanos)) }),
    ];
    let verdict = (outcome, any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(outcome, available, remaining, reset)| Verdict {
            outcome,
            available,
            remaining,
            reset_after: Duration::from_nanos(reset),
        },
    );
    let shares = (vec(("[a-z]{1,9}", any::<u64>()), 0..9), any::<u64>(), any::<u64>()).prop_map(
        |(each, others, unaccounted)| {
            let each = each.into_iter().map(|(name, held)| (NodeId::new(name), held)).collect();
            Shares { each, others, unaccounted }
        },
    );
    prop_oneof![
        (verdict.clone(), shares).prop_map(|(verdict, shares)| Reply::Surveyed(verdict, shares)),
        Just(Reply::Lent),
        Just(Reply::Exhausted),
        Just(Reply::Elsewhere),
        Just(Reply::Seen(None)),
        any::<(u64, u64)>().prop_map(|state| Reply::Seen(Some(state))),
        verdict.prop_map(Reply::Done),
    ]
}

fn view() -> impl Strategy<Value = View> {
    let member = || ("[a-z]{1,9}", any::<u64>()).prop_map(|(id, run)| Member::new(NodeId::new(id), run));
    ((any::<u64>(), 0..9_u64), any::<u64>(), any::<u32>(), vec(member(), 0..9), vec(member(), 0..4)).prop_map(
        |((base, height), fence, number, members, gone)| {
            let round = Round { number, proposer: NodeId::new("p") };
            let base = Base { id: ViewId(base), height };
            View::new(Some(base), Timestamp::from_nanos(fence), round, members, gone)
        },
    )
}

fn item() -> impl Strategy<Value = Item> {
    let about = place().prop_flat_map(|place| {
        let bucket = has_serial(&place);
        prop_oneof![
            report(bucket).prop_map(move |report| Item::Report(place, report)),
            word(bucket).prop_map(move |word| Item::Word(place, word)),
            (any::<u64>(), report(bucket), want()).prop_map(move |(id, report, want)| Item::Ask {
                id,
                place,
                report,
                want
            }),
            (any::<u64>(), word(bucket), reply()).prop_map(move |(id, word, reply)| Item::Answer {
                id,
                place,
                word,
                reply
            }),
        ]
    });
    let votes = || (any::<u128>(), any::<u128>(), any::<u128>());
    prop_oneof![
        6 => about,
        1 => (view(), votes()).prop_map(|(view, votes)| Item::Motion { view, votes }),
        1 => (any::<u64>(), votes()).prop_map(|(view, votes)| Item::Vote { view: ViewId(view), votes }),
        1 => (any::<[u64; 2]>(), any::<[u32; 2]>(), vec((place(), any::<u32>()), 0..4)).prop_map(
            |([view, since], [count, first], each)| {
                let each = each.into_iter().map(|(place, level)| (place.subject, level)).collect();
                let (view, since) = (ViewId(view), Timestamp::from_nanos(since));
                Item::Levels(Levels { view, since, count, first, each })
            }
        ),
        1 => (any::<u64>(), any::<u32>()).prop_map(|(view, taken)| Item::Taken { view: ViewId(view), taken }),
        1 => (any::<u64>(), any::<u64>(), vec(view(), 0..4)).prop_map(|(founded, id, views)| Item::Chain {
            root: Root { founded: Timestamp::from_nanos(founded), id: ViewId(id) },
            views,
        }),
    ]
}

fn read_all(bytes: &[u8], heard: &mut Heard) -> Result<(Header, Vec<Item>), Unreadable> {
    let (header, reader) = read_header(bytes)?;
    let mut items = Items { reader, header: &header, heard };
    let mut all = Vec::new();
    while let Some(item) = items.next_item()? {
        all.push(item);
    }
    Ok((header.clone(), all))
}

proptest! {
    #![proptest_config(cases(300))]

    /// Fails when a bucket's serial is not written, or a tag is relative to another time than the reader's.
    #[test]
    fn frames_are_read_as_they_were_written(frames in vec((header(), vec(item(), 0..12)), 1..5), acks in any::<bool>()) {
        let (mut spoken, mut heard) = (Spoken::default(), Heard::default());
        for (header, items) in frames {
            let mut encoder = Encoder::new(&header, &mut spoken);
            for item in &items {
                encoder.push(item);
            }
            let bytes = encoder.finish();
            if bytes.len() > LONGEST_FRAME {
                continue;
            }
            prop_assert_eq!(read_all(&bytes, &mut heard), Ok((header, items)));
            if acks {
                assert!(spoken.acknowledge(0, heard.known(), true));
            }
        }
    }

    /// Arbitrary bytes are read or rejected; a panic would end the test.
    ///
    /// Fails when a name is as long as it claims.
    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in vec(any::<u8>(), 0..400), header in header(), items in vec(item(), 0..6), flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)) {
        let _ = read_all(&bytes, &mut Heard::default());
        let mut spoken = Spoken::default();
        let mut encoder = Encoder::new(&header, &mut spoken);
        for item in &items {
            encoder.push(item);
        }
        let mut bytes = encoder.finish();
        for (place, byte) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= byte;
        }
        let _ = read_all(&bytes, &mut Heard::default());
        bytes.truncate(bytes.len() / 2);
        let _ = read_all(&bytes, &mut Heard::default());
    }
}

/// The size of an update on the wire for an interned counter.
///
/// Fails when a counter is written in full each time.
#[test]
fn an_update_takes_12_bytes_at_most() {
    let limit = Limit::fixed_window(1_000, Period::SECOND);
    let time = Timestamp::from_millis(1_700_000_000_123);
    let header = Header {
        generation: Generation(1),
        time,
        head: Some(ViewId(5)),
        leaving: false,
        rules: 7,
        dictionary: 300,
        known: 0,
        known_of: 300,
        to: Generation(1),
        echo: None,
        slew_us: 0,
    };
    let (mut spoken, mut heard) = (Spoken::default(), Heard::default());
    let items: Vec<Item> = (0..5_000_u64)
        .map(|key| {
            let subject = Subject { key: Key::from_bits(key, key), limit };
            let place = Place { subject, view: ViewId(5), tag: tag_at(&limit, time) };
            Item::Report(
                place,
                Report {
                    spent: 100 + key % 300,
                    returned: key % 40,
                    granted_seen: key % 90,
                    ..Report::default()
                },
            )
        })
        .collect();
    let mut size = 0;
    for round in 0..2 {
        for part in items.chunks(1_000) {
            let mut encoder = Encoder::new(&header, &mut spoken);
            for item in part {
                encoder.push(item);
            }
            let bytes = encoder.finish();
            size = if round == 1 { bytes.len() } else { 0 };
            assert!(read_all(&bytes, &mut heard).is_ok());
            assert!(spoken.acknowledge(0, heard.known(), true));
        }
    }
    assert!((5_000..=12_000).contains(&size), "{size} bytes for 1,000 updates");
}

/// Fails when a key has one entry, so that two limits replace each other (as first written).
#[test]
fn two_limits_of_one_key_have_an_entry_each() {
    let (mut spoken, mut heard) = (Spoken::default(), Heard::default());
    for round in 0..20 {
        let limit = Limit::fixed_window(10 + round % 2, Period::SECOND);
        let mut writer = Writer::default();
        spoken.write(&Subject { key: Key::from_bits(3, 5), limit }, &mut writer);
        heard.read(&mut Reader(&writer.0)).unwrap();
        assert!(spoken.acknowledge(0, heard.known(), true));
        assert_eq!(writer.0.len() > 10, round < 2, "round {round}");
    }
    assert_eq!(heard.known(), 2);
}
