//! Pagination of long lists.

use super::table::text;
use crate::cli::client::AdminRequest;
use clap::Args;
use serde_json::Value;

/// Which part of a long list.
#[derive(Args)]
pub(super) struct PageArgs {
    /// Number of items, up to 1000
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,

    /// Where to continue: the cursor that the previous page printed
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl PageArgs {
    pub(super) fn of(&self, question: AdminRequest) -> AdminRequest {
        question.with("limit", Some(&self.limit.to_string())).with("cursor", self.cursor.as_deref())
    }
}

/// The table of a page, with the cursor of the next.
pub(super) fn with_next(table: String, body: &Value) -> String {
    match text(body, "next").as_str() {
        "" => table,
        next => {
            format!("{table}There are more: --cursor {}\n", hivemind_tls::escape::escape_line(next, 20_000))
        }
    }
}
