//! `/api/v1/peers`: the other nodes of the mesh, and the removal of a node that is gone for good.

use super::Admin;
use super::reply::{ok, problem};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use hivemind_mesh::{ForgetError, ForgetOutcome};
use serde_json::{Value, json};
use std::sync::Arc;

/// All peers of the mesh, without this node; empty without a mesh.
pub(super) async fn list(State(admin): State<Admin>) -> Response {
    match admin.mesh {
        Some(mesh) => ok(&mesh.peers().await),
        None => ok(&json!({"peers": []})),
    }
}

/// The peers for events; `None` without a mesh. Held allowance is only included if `is_whole`, because the sum visits
/// every counter.
pub(super) async fn shown(admin: &Admin, is_whole: bool) -> Option<Value> {
    match &admin.mesh {
        Some(mesh) if is_whole => Some(Arc::clone(mesh).peers().await),
        Some(mesh) => Some(mesh.contacts()),
        None => None,
    }
}

/// Removes a peer that is gone for good.
pub(super) async fn forget(State(admin): State<Admin>, Path(name): Path<String>) -> Response {
    let Some(mesh) = admin.mesh else {
        return problem(StatusCode::NOT_FOUND, "No mesh", "`storage.kind` is not `mesh`.");
    };
    match mesh.give_up(&name) {
        Ok(given_up) => ok(&json!({"peer": name, "was_member": given_up == ForgetOutcome::Member})),
        Err(why) => {
            let status =
                if why == ForgetError::Unknown { StatusCode::NOT_FOUND } else { StatusCode::CONFLICT };
            problem(status, "Not forgotten", &format!("`{name}`: {why}."))
        }
    }
}
