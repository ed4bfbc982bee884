//! Round trips of all frames. Arbitrary bytes are rejected or read, without a panic.

mod inspections;

use super::requests::ACTIONS;
use super::*;
use crate::frame::holdings::Shares;
use crate::frame::{BucketLevels, MemberReport, OwnerReply, OwnerUpdate, Want};
use crate::view::Member;
use crate::view::NodeId;
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
            interner: to % 1_000,
            known,
            known_of: generation % 1_000,
            to: Generation(to),
            echo,
            slew_us,
        },
    )
}

fn window_ref() -> impl Strategy<Value = WindowRef> {
    // Few keys and views, so that interner entries and the newest view are used again.
    (0..3_u64, limits(), 0..3_u64, any::<u64>()).prop_map(|(key, limit, view, tag)| WindowRef {
        counter: CounterRef { key: Key::from_bits(key, key), limit },
        view: ViewId(view),
        tag: if matches!(limit, Limit::TokenBucket(_)) { 0 } else { tag },
    })
}

fn report(bucket: bool) -> impl Strategy<Value = MemberReport> {
    (any::<[u64; 3]>(), 0..u64::MAX >> 1, 0..3_u64, 0..3_u64, 0..2_u64, 0..3_u64, any::<bool>()).prop_map(
        move |([serial, spent, returned], granted_seen, refused, refunded, given, owed, eventual)| {
            MemberReport {
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
            }
        },
    )
}

fn update(bucket: bool) -> impl Strategy<Value = OwnerUpdate> {
    (any::<u64>(), 0..u64::MAX >> 2, any::<u64>(), any::<i64>(), any::<u64>(), any::<bool>(), 0..3_u64)
        .prop_map(move |(serial, granted, settled_seen, left, others, recall, resets)| OwnerUpdate {
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
        (any::<u64>(), any::<u64>()).prop_map(|(need, ahead)| Want::Grant { need, ahead }),
        (proptest::sample::select(ACTIONS.to_vec()), any::<u64>())
            .prop_map(|(action, cost)| Want::Do { action, cost }),
        (proptest::sample::select(ACTIONS.to_vec()), any::<u64>()).prop_map(|(action, cost)| match action {
            Action::Peek => Want::Inspect,
            action => Want::Outcome { action, cost },
        }),
        Just(Want::Look),
        Just(Want::Forget),
        any::<u64>().prop_map(|of| Want::Undo { of }),
    ]
}

fn reply() -> impl Strategy<Value = OwnerReply> {
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
        (verdict.clone(), shares).prop_map(|(verdict, shares)| OwnerReply::Inspected(verdict, shares)),
        Just(OwnerReply::Granted),
        Just(OwnerReply::Exhausted),
        Just(OwnerReply::Elsewhere),
        Just(OwnerReply::Seen(None)),
        any::<(u64, u64)>().prop_map(|state| OwnerReply::Seen(Some(state))),
        verdict.prop_map(OwnerReply::Done),
    ]
}

fn view() -> impl Strategy<Value = View> {
    let member = || ("[a-z]{1,9}", any::<u64>()).prop_map(|(id, run)| Member::new(NodeId::new(id), run));
    ((any::<u64>(), 0..9_u64), any::<u64>(), any::<u32>(), vec(member(), 0..9), vec(member(), 0..4)).prop_map(
        |((base, height), effective_at, number, members, gone)| {
            let round = Round { number, proposer: NodeId::new("p") };
            let base = Base { id: ViewId(base), height };
            View::new(Some(base), Timestamp::from_nanos(effective_at), round, members, gone)
        },
    )
}

fn item() -> impl Strategy<Value = Item> {
    let about = window_ref().prop_flat_map(|window_ref| {
        let bucket = has_serial(&window_ref);
        prop_oneof![
            report(bucket).prop_map(move |report| Item::Report(window_ref, report)),
            update(bucket).prop_map(move |update| Item::Update(window_ref, update)),
            (any::<u64>(), report(bucket), want()).prop_map(move |(id, report, want)| Item::Ask {
                id,
                window_ref,
                report,
                want
            }),
            (any::<u64>(), update(bucket), reply()).prop_map(move |(id, update, reply)| Item::Answer {
                id,
                window_ref,
                update,
                reply
            }),
        ]
    });
    let votes = || (any::<u128>(), any::<u128>(), any::<u128>());
    prop_oneof![
        6 => about,
        1 => (view(), votes()).prop_map(|(view, votes)| Item::Proposal { view, votes }),
        1 => (any::<u64>(), votes()).prop_map(|(view, votes)| Item::Vote { view: ViewId(view), votes }),
        1 => (any::<[u64; 2]>(), any::<[u32; 2]>(), vec((window_ref(), any::<u32>()), 0..4)).prop_map(
            |([view, since], [count, first], each)| {
                let each = each.into_iter().map(|(window_ref, level)| (window_ref.counter, level)).collect();
                let (view, since) = (ViewId(view), Timestamp::from_nanos(since));
                Item::Levels(BucketLevels { view, since, count, first, each })
            }
        ),
        1 => (any::<u64>(), any::<u32>()).prop_map(|(view, taken)| Item::Taken { view: ViewId(view), taken }),
        1 => (any::<u64>(), any::<u64>(), vec(view(), 0..4)).prop_map(|(founded, id, views)| Item::ViewLog {
            root: Root { founded: Timestamp::from_nanos(founded), id: ViewId(id) },
            views,
        }),
    ]
}

fn read_all(bytes: &[u8], receive_interner: &mut ReceiveInterner) -> Result<(Header, Vec<Item>), Unreadable> {
    let (header, reader) = read_header(bytes)?;
    let mut items = Items { reader, header: &header, receive_interner };
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
    fn frames_are_decoded_as_encoded(frames in vec((header(), vec(item(), 0..12)), 1..5), acks in any::<bool>()) {
        let (mut send_interner, mut receive_interner) = (SendInterner::default(), ReceiveInterner::default());
        for (header, items) in frames {
            let mut encoder = Encoder::new(&header, &mut send_interner);
            for item in &items {
                encoder.push(item);
            }
            let bytes = encoder.finish();
            if bytes.len() > LONGEST_FRAME {
                continue;
            }
            prop_assert_eq!(read_all(&bytes, &mut receive_interner), Ok((header, items)));
            if acks {
                assert!(send_interner.acknowledge(0, receive_interner.known(), true));
            }
        }
    }

    /// Arbitrary bytes are read or rejected; a panic would end the test.
    ///
    /// Fails when a name is as long as it claims.
    #[test]
    fn arbitrary_bytes_cause_no_decoder_panic(bytes in vec(any::<u8>(), 0..400), header in header(), items in vec(item(), 0..6), flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)) {
        let _ = read_all(&bytes, &mut ReceiveInterner::default());
        let mut send_interner = SendInterner::default();
        let mut encoder = Encoder::new(&header, &mut send_interner);
        for item in &items {
            encoder.push(item);
        }
        let mut bytes = encoder.finish();
        for (index, byte) in flips {
            let index = index.index(bytes.len());
            bytes[index] ^= byte;
        }
        let _ = read_all(&bytes, &mut ReceiveInterner::default());
        bytes.truncate(bytes.len() / 2);
        let _ = read_all(&bytes, &mut ReceiveInterner::default());
    }
}

/// The size of an update on the wire for an interned counter.
///
/// Fails when a counter is written in full each time.
#[test]
fn update_takes_at_most_12_bytes() {
    let limit = Limit::fixed_window(1_000, Period::SECOND);
    let time = Timestamp::from_millis(1_700_000_000_123);
    let header = Header {
        generation: Generation(1),
        time,
        head: Some(ViewId(5)),
        leaving: false,
        rules: 7,
        interner: 300,
        known: 0,
        known_of: 300,
        to: Generation(1),
        echo: None,
        slew_us: 0,
    };
    let (mut send_interner, mut receive_interner) = (SendInterner::default(), ReceiveInterner::default());
    let items: Vec<Item> = (0..5_000_u64)
        .map(|key| {
            let counter = CounterRef { key: Key::from_bits(key, key), limit };
            let window_ref = WindowRef { counter, view: ViewId(5), tag: tag_at(&limit, time) };
            Item::Report(
                window_ref,
                MemberReport {
                    spent: 100 + key % 300,
                    returned: key % 40,
                    granted_seen: key % 90,
                    ..MemberReport::default()
                },
            )
        })
        .collect();
    let mut size = 0;
    for round in 0..2 {
        for part in items.chunks(1_000) {
            let mut encoder = Encoder::new(&header, &mut send_interner);
            for item in part {
                encoder.push(item);
            }
            let bytes = encoder.finish();
            size = if round == 1 { bytes.len() } else { 0 };
            assert!(read_all(&bytes, &mut receive_interner).is_ok());
            assert!(send_interner.acknowledge(0, receive_interner.known(), true));
        }
    }
    assert!((5_000..=12_000).contains(&size), "{size} bytes for 1,000 updates");
}

/// Fails when a key has one entry, so that two limits replace each other (as first written).
#[test]
fn two_limits_of_one_key_have_separate_entries() {
    let (mut send_interner, mut receive_interner) = (SendInterner::default(), ReceiveInterner::default());
    for round in 0..20 {
        let limit = Limit::fixed_window(10 + round % 2, Period::SECOND);
        let mut writer = WireWriter::default();
        send_interner.write(&CounterRef { key: Key::from_bits(3, 5), limit }, &mut writer);
        receive_interner.read(&mut WireReader(&writer.0)).unwrap();
        assert!(send_interner.acknowledge(0, receive_interner.known(), true));
        assert_eq!(writer.0.len() > 10, round < 2, "round {round}");
    }
    assert_eq!(receive_interner.known(), 2);
}
