//! `/api/v1/peers`: who is in the mesh, and who is given up because nobody else could say that it is gone.

use super::Admin;
use super::reply::{ok, problem};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use hivemind_mesh::{GivenUp, NotGivenUp};
use serde_json::{Value, json};
use std::sync::Arc;

/// Every peer of the mesh, without this node itself; none where there is no mesh.
pub(super) async fn list(State(admin): State<Admin>) -> Response {
    match admin.mesh {
        Some(mesh) => ok(&mesh.peers().await),
        None => ok(&json!({"peers": []})),
    }
}

/// The same for events; none where there is no mesh. What peers hold is summed up in a `whole` one only: for that, every
/// counter is looked at.
pub(super) async fn shown(admin: &Admin, is_whole: bool) -> Option<Value> {
    match &admin.mesh {
        Some(mesh) if is_whole => Some(Arc::clone(mesh).peers().await),
        Some(mesh) => Some(mesh.contacts()),
        None => None,
    }
}

/// Gives up a peer that is gone for good.
pub(super) async fn forget(State(admin): State<Admin>, Path(name): Path<String>) -> Response {
    let Some(mesh) = admin.mesh else {
        return problem(StatusCode::NOT_FOUND, "There is no mesh", "`storage.kind` is not `mesh`.");
    };
    match mesh.give_up(&name) {
        Ok(given_up) => ok(&json!({"peer": name, "was_member": given_up == GivenUp::Member})),
        Err(why) => {
            let status =
                if why == NotGivenUp::Unknown { StatusCode::NOT_FOUND } else { StatusCode::CONFLICT };
            problem(status, "Not forgotten", &format!("`{name}`: {why}."))
        }
    }
}
