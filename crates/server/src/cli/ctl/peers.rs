//! `hivemind ctl peers`: the other nodes of the mesh.

use super::table::{TextTable, each, text};
use crate::cli::client::{AdminRequest, encoded};
use clap::Args;
use serde_json::Value;

/// List the other nodes of the mesh
#[derive(Args)]
pub(super) struct PeersArgs {
    /// Remove a peer that is gone for good, at all nodes
    #[arg(long, value_name = "NAME")]
    forget: Option<String>,
}

impl PeersArgs {
    pub(super) fn question(&self) -> AdminRequest {
        match &self.forget {
            Some(name) => AdminRequest::post(&format!("/api/v1/peers/{}/forget", encoded(name)), None),
            None => AdminRequest::get("/api/v1/peers"),
        }
    }

    pub(super) fn shown(&self, body: &Value) -> String {
        match &self.forget {
            Some(_) if text(body, "was_member") == "true" => "forgotten\n".to_owned(),
            Some(_) => "it was not a member: nothing to do\n".to_owned(),
            None => listed(body),
        }
    }
}

fn listed(body: &Value) -> String {
    let mut table = TextTable::new(&[
        "name",
        "address",
        "state",
        "member",
        "rtt ms#",
        "silent ms#",
        "clock ms#",
        "rights#",
    ]);
    for peer in each(body, "peers") {
        let of = |name: &str| text(peer, name);
        table.row([
            of("name"),
            of("address"),
            of("state"),
            of("member"),
            of("rtt_ms"),
            of("staleness_ms"),
            of("clock_offset_ms"),
            of("rights_held"),
        ]);
    }
    table.or("no peers: no mesh, or this is its only node")
}
