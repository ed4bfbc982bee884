//! `hivemind ctl blocks`: the blocked keys.

use super::page_args::{PageArgs, with_next};
use super::table::{TextTable, each, marked, moment, text};
use crate::cli::client::AdminRequest;
use clap::Args;
use serde_json::Value;

/// List the blocked keys and when each block ends
#[derive(Args)]
pub(super) struct BlocksArgs {
    #[command(flatten)]
    page: PageArgs,
}

impl BlocksArgs {
    pub(super) fn question(&self) -> AdminRequest {
        self.page.of(AdminRequest::get("/api/v1/blocks"))
    }
}

pub(super) fn shown(body: &Value) -> String {
    let mut table = TextTable::new(&["until", "domain", "key", "by"]);
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
