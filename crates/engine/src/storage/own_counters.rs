//! Local counters with the block list, for frontends that decide without a shared store. While nothing is blocked,
//! the block list costs reading one number.

use super::blocked_batch::BlockedBatch;
use crate::block_list::BlockList;
use hivemind_core::store::{Charge, Context, Key, LocalStore, MemoryStore, Verdicts};
use std::sync::Arc;

/// The counters of this process.
pub(crate) struct OwnCounters {
    pub(super) memory: Arc<MemoryStore>,
    pub(super) blocks: Arc<BlockList>,
}

impl LocalStore for OwnCounters {
    #[inline]
    fn decide_now(&self, batch: &[Charge<'_>], context: Context) -> Verdicts {
        if self.blocks.are_any(context.now)
            && let Some(blocked) = BlockedBatch::of(batch, &self.blocks, context.now)
        {
            return blocked.refused(&self.memory.decide_now(&blocked.others, context));
        }
        self.memory.decide_now(batch, context)
    }

    fn forget_now(&self, key: Key) {
        self.memory.forget_now(key);
    }
}
