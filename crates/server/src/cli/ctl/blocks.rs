//! `hivemind ctl blocks`: the blocked keys.

use super::paged::{Paged, with_next};
use super::table::{Table, each, marked, moment, text};
use crate::cli::client::Question;
use clap::Args;
use serde_json::Value;

/// List the blocked keys and when each block ends
#[derive(Args)]
pub(super) struct Blocks {
    #[command(flatten)]
    page: Paged,
}

impl Blocks {
    pub(super) fn question(&self) -> Question {
        self.page.of(Question::get("/api/v1/blocks"))
    }
}

pub(super) fn shown(body: &Value) -> String {
    let mut table = Table::new(&["until", "domain", "key", "by"]);
    for block in each(body, "items") {
        table.row([
            moment(block, "until_ms"),
            text(block, "domain"),
            marked(block, "entries", text(block, "is_cut") == "true", ""),
            text(block, "by"),
        ]);
    }
    with_next(table.without_empty().or("no blocked keys"), body)
}
