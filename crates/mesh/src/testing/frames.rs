//! Frames for benchmarks of the codec: one member's reports on several counters, as a tick sends them.

use crate::frame::codec::{Encoder, Items, read_header};
use crate::frame::interner::{CounterRef, ReceiveInterner, SendInterner};
use crate::frame::{Header, Item, MemberReport, WindowRef};
use crate::view::{Generation, ViewId};
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Timestamp};

/// One direction of a connection: a sender, a receiver, and the messages of a frame.
#[doc(hidden)]
pub struct FrameCodec {
    header: Header,
    items: Vec<Item>,
    sender: SendInterner,
    receiver: ReceiveInterner,
}

impl FrameCodec {
    /// A connection after its first frame, so that counters have numbers instead of keys.
    ///
    /// # Panics
    ///
    /// If the codec does not read what it wrote.
    #[must_use]
    pub fn new(counters: u64, now: Timestamp) -> Self {
        let view = ViewId(7);
        let header = Header {
            generation: Generation(1),
            time: now,
            slew_us: 0,
            head: Some(view),
            leaving: false,
            rules: 3,
            interner: 0,
            known: 0,
            known_of: 0,
            to: Generation(1),
            echo: None,
        };
        let limit = Limit::fixed_window(1_000, Period::MINUTE);
        let tag = crate::window::tag_at(&limit, now);
        let report = |number| {
            let key = Key::from_bits(number, number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let totals = MemberReport { spent: 40 + number, granted_seen: 100, ..MemberReport::default() };
            Item::Report(WindowRef { counter: CounterRef { key, limit }, view, tag }, totals)
        };
        let items = (1..=counters).map(report).collect();
        let mut codec =
            Self { header, items, sender: SendInterner::default(), receiver: ReceiveInterner::default() };
        let first = codec.encode();
        assert_eq!(codec.decode(&first), codec.items.len());
        assert!(codec.sender.acknowledge(codec.receiver.number(), codec.receiver.known(), true));
        codec
    }

    /// The bytes of the frame.
    #[must_use]
    pub fn encode(&mut self) -> Vec<u8> {
        let mut encoder = Encoder::new(&self.header, &mut self.sender);
        self.items.iter().for_each(|item| encoder.push(item));
        encoder.finish()
    }

    /// The number of messages in a frame; those before the first unreadable one.
    #[must_use]
    pub fn decode(&mut self, frame: &[u8]) -> usize {
        let Ok((header, reader)) = read_header(frame) else { return 0 };
        let mut items = Items { reader, header: &header, receive_interner: &mut self.receiver };
        std::iter::from_fn(|| items.next_item().ok().flatten()).count()
    }
}
