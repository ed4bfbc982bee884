//! `GET /api/v1/blocks?limit=N&cursor=C`: the blocked keys, in the order in which their blocks end. A cursor contains
//! no key, because proxies log URLs.

use super::Admin;
use super::page_query::PageQuery;
use super::query::Query;
use super::reply::{no_question, ok};
use super::time::millis;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::get;
use hivemind_core::{Clock, SystemClock};
use hivemind_engine::block_list::Block;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/blocks", get(list))
}

async fn list(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    let page = Query::read(query.as_deref(), &PageQuery::NAMES).and_then(|query| {
        let page = PageQuery::of(&query)?;
        let after: Option<BlockPosition> = page.after()?;
        let blocks = admin.storage.blocks().list(SystemClock.now());
        let mut items: Vec<(BlockPosition, Block)> =
            blocks.into_iter().map(|block| (BlockPosition::of(&block), block)).collect();
        items.retain(|(place, _)| after.is_none_or(|after| *place > after));
        items.sort_unstable_by_key(|(place, _)| *place);
        Ok(page.of_items(items.iter().map(|(place, block)| (*place, shown(&admin, block)))))
    });
    page.map_or_else(|detail| no_question(&detail), |page| ok(&page))
}

fn shown(admin: &Admin, block: &Block) -> Value {
    json!({
        "domain": block.name.domain(),
        "entries": block.name.shown_entries(),
        "is_cut": block.name.is_hashed(),
        "key_id": admin.service.0.id_of_stored(&block.name),
        "until_ms": millis(block.until),
        "by": block.by,
    })
}

/// The position of a block in the list: its end, and among equal ends a hash of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BlockPosition {
    until_nanos: u64,
    name: u64,
}

impl BlockPosition {
    fn of(block: &Block) -> Self {
        let digest = Sha256::digest(block.name.text());
        let name = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        Self { until_nanos: block.until.as_nanos(), name }
    }
}

impl fmt::Display for BlockPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.until_nanos, self.name)
    }
}

impl FromStr for BlockPosition {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (until, name) = text.split_once('.').ok_or(())?;
        let name = u64::from_str_radix(name, 16).map_err(|_| ())?;
        Ok(Self { until_nanos: until.parse().map_err(|_| ())?, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hivemind_core::Timestamp;
    use hivemind_engine::block_list::KeyName;

    // Fails when the position contains the name itself.
    #[test]
    fn block_cursor_round_trips_without_the_name() {
        let block = |user: &str, ms| Block {
            name: KeyName::new("shop", [("user", user)]).stored(),
            until: Timestamp::from_millis(ms),
            by: None,
        };
        let (ada, bob, late) = (
            BlockPosition::of(&block("ada", 5)),
            BlockPosition::of(&block("bob", 5)),
            BlockPosition::of(&block("ada", 6)),
        );
        assert_eq!(ada.to_string().parse(), Ok(ada));
        assert!(ada != bob && ada < late && bob < late);
        assert!(!ada.to_string().contains("ada"));
        for wrong in ["", "1", "1.", ".1", "1.x", "-1.1"] {
            assert!(wrong.parse::<BlockPosition>().is_err(), "{wrong}");
        }
    }
}
