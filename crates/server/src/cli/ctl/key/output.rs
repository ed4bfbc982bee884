//! Text output of `hivemind ctl key`: results, and warnings if something was done only partly.

use crate::cli::ctl::table::{TextTable, each, limit, moment, span, text};
use hivemind_tls::escape::escape_lines;
use serde_json::Value;

const NO_LIMIT: &str = "no rule limits this key; see `hivemind ctl explain`";

/// What is left of each limit; in a mesh, the allowance of each node.
pub(super) fn looked_up(body: &Value) -> String {
    let blocked = moment(body, "blocked_until_ms");
    let blocked = if blocked.is_empty() { String::new() } else { format!("blocked until {blocked}\n") };
    blocked + &limits(body) + &held(body)
}

pub(super) fn reset(body: &Value) -> String {
    let done = format!("reset: {} counters\n", text(body, "reset"));
    let rest = [("crowded", "not reset"), ("in_doubt", "only partly reset")];
    let rest = rest.map(|(name, label)| match text(body, name).as_str() {
        "" => String::new(),
        number => format!("{label}: {number} counters\n"),
    });
    let rest = rest.concat() + &why(body);
    let is_nothing = rest.is_empty() && text(body, "reset") == "0";
    done + &rest + &if is_nothing { format!("{NO_LIMIT}\n") } else { String::new() }
}

/// What was returned, and why it is less than requested.
pub(super) fn granted(body: &Value) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in each(body, "limits").map(why).filter(|line| !line.is_empty()) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    limits(body) + &lines.concat()
}

pub(super) fn blocked(body: &Value) -> String {
    let until = moment(body, "blocked_until_ms");
    let scope = match text(body, "scope").as_str() {
        "node" => {
            ", at this node only, until it restarts\nOther nodes are not affected: repeat --url for each of them"
        }
        "mesh" => ", at all nodes of the mesh",
        _ => "",
    };
    let nothing = match body.get("limits").and_then(Value::as_u64) {
        Some(0) => {
            "No rule limits this key: the block affects only requests that carry their own limit. \
             See `hivemind ctl explain`\n"
        }
        _ => "",
    };
    format!("blocked until {until}{scope}\n{nothing}")
}

pub(super) fn unblocked(body: &Value) -> String {
    let line =
        if text(body, "was_blocked") == "true" { "no longer blocked\n" } else { "it was not blocked\n" };
    line.to_owned()
}

fn why(of: &Value) -> String {
    let why = text(of, "why");
    if why.is_empty() { why } else { escape_lines(&why) + "\n" }
}

fn limits(body: &Value) -> String {
    let mut table = TextTable::new(&["limit", "remaining#", "reset in", "returned#", "mode", "owner"]);
    for one in each(body, "limits") {
        let reset = one.get("reset_ms").and_then(Value::as_f64).map(span).unwrap_or_default();
        let [remaining, granted, mode] = ["remaining", "granted", "mode"].map(|name| text(one, name));
        let owner = one.get("mesh").map(|mesh| text(mesh, "owner")).unwrap_or_default();
        table.row([limit(one), remaining, reset, granted, mode, owner]);
    }
    table.without_empty().or(NO_LIMIT)
}

/// The allowance that each node of a mesh holds; empty without a mesh.
fn held(body: &Value) -> String {
    let mut table = TextTable::new(&["limit", "node", "holds#"]);
    let mut notes = String::new();
    for one in each(body, "limits") {
        let Some(mesh) = one.get("mesh").filter(|mesh| mesh.is_object()) else { continue };
        let each = mesh.get("held").and_then(Value::as_object);
        for (node, held) in each.into_iter().flatten() {
            table.row([limit(one), node.clone(), held.to_string()]);
        }
        let number = |name: &str| mesh.get(name).and_then(Value::as_u64).filter(|number| *number > 0);
        if let Some(others) = number("held_by_others") {
            table.row([limit(one), "others".to_owned(), others.to_string()]);
        }
        if each.is_none() {
            notes += "The owner runs an earlier version: this is only its own share, without the allowance of other nodes.\n";
        }
        if let Some(most) = number("unaccounted") {
            let note =
                ["Up to ", &most.to_string(), " more may be held since before nodes joined or left.\n"];
            notes += &note.concat();
        }
    }
    let table = if table.is_empty() { String::new() } else { format!("\n{}", table.or("")) };
    table + &notes
}
