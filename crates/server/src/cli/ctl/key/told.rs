//! What came of it, for people. What was not done, or not everywhere, is said beside what was.

use crate::cli::ctl::table::{Table, each, limit, moment, span, text};
use hivemind_tls::harmless::harmless_lines;
use serde_json::Value;

const NO_LIMIT: &str = "no limit is asked for this key; see `hivemind ctl explain`";

/// What is left of each limit; in a mesh, who holds it.
pub(super) fn looked_up(body: &Value) -> String {
    let blocked = moment(body, "blocked_until_ms");
    let blocked = if blocked.is_empty() { String::new() } else { format!("blocked until {blocked}\n") };
    blocked + &limits(body) + &held(body)
}

pub(super) fn reset(body: &Value) -> String {
    let done = format!("forgotten: {} counters\n", text(body, "reset"));
    let rest = [("crowded", "not forgotten"), ("in_doubt", "forgotten in part only")];
    let rest = rest.map(|(name, said)| match text(body, name).as_str() {
        "" => String::new(),
        number => format!("{said}: {number} counters\n"),
    });
    let rest = rest.concat() + &why(body);
    let is_nothing = rest.is_empty() && text(body, "reset") == "0";
    done + &rest + &if is_nothing { format!("{NO_LIMIT}\n") } else { String::new() }
}

/// What was given back, and why it is less than was asked for.
pub(super) fn granted(body: &Value) -> String {
    let mut told: Vec<String> = Vec::new();
    for line in each(body, "limits").map(why).filter(|line| !line.is_empty()) {
        if !told.contains(&line) {
            told.push(line);
        }
    }
    limits(body) + &told.concat()
}

pub(super) fn blocked(body: &Value) -> String {
    let until = moment(body, "blocked_until_ms");
    let scope = match text(body, "scope").as_str() {
        "node" => {
            ", at this node only, unless it restarts before\nOther nodes do not know of it: where there are any, give --url once for each"
        }
        "mesh" => ", at all nodes of the mesh",
        _ => "",
    };
    let nothing = match body.get("limits").and_then(Value::as_u64) {
        Some(0) => {
            "No rule limits this key: only requests that bring a limit of their own are refused. \
             See `hivemind ctl explain`\n"
        }
        _ => "",
    };
    format!("blocked until {until}{scope}\n{nothing}")
}

pub(super) fn unblocked(body: &Value) -> String {
    let told =
        if text(body, "was_blocked") == "true" { "not blocked any more\n" } else { "it was not blocked\n" };
    told.to_owned()
}

fn why(of: &Value) -> String {
    let why = text(of, "why");
    if why.is_empty() { why } else { harmless_lines(&why) + "\n" }
}

fn limits(body: &Value) -> String {
    let mut table = Table::new(&["limit", "remaining#", "reset in", "given back#", "mode", "owner"]);
    for one in each(body, "limits") {
        let reset = one.get("reset_ms").and_then(Value::as_f64).map(span).unwrap_or_default();
        let [remaining, granted, mode] = ["remaining", "granted", "mode"].map(|name| text(one, name));
        let owner = one.get("mesh").map(|mesh| text(mesh, "owner")).unwrap_or_default();
        table.row([limit(one), remaining, reset, granted, mode, owner]);
    }
    table.without_empty().or(NO_LIMIT)
}

/// What each node of a mesh may admit by itself; nothing where there is none.
fn held(body: &Value) -> String {
    let mut table = Table::new(&["limit", "node", "holds#"]);
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
            notes +=
                "The owner is of an earlier version: this is its own part, without what other nodes hold.\n";
        }
        if let Some(most) = number("unaccounted") {
            let told = ["Up to ", &most.to_string(), " more may be held since before nodes came or went.\n"];
            notes += &told.concat();
        }
    }
    let table = if table.is_empty() { String::new() } else { format!("\n{}", table.or("")) };
    table + &notes
}
