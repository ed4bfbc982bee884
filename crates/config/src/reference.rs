//! Tables of the reference pages: meaning and default of each key. Tests compare the pages with the code, so the
//! schema may repeat them (docs/decisions/023).

use std::collections::BTreeMap;

pub const CONFIGURATION: &str = include_str!("../reference/configuration.md");
pub const RULES: &str = include_str!("../reference/rules.md");

/// Row of a key on a reference page.
#[derive(Debug, PartialEq, Eq)]
pub struct ReferenceRow {
    pub default: Option<&'static str>,
    pub meaning: String,
}

/// Returns the rows of all tables with four columns below `heading`, up to the next heading of the same or a higher
/// level; of the whole page if it is empty.
pub fn rows(page: &'static str, heading: &str, head: &str) -> BTreeMap<&'static str, ReferenceRow> {
    let from = page.lines().skip_while(|line| !heading.is_empty() && *line != heading);
    let part =
        from.enumerate().take_while(|(at, line)| heading.is_empty() || *at == 0 || !line.starts_with("## "));
    let (mut rows, mut is_wanted) = (BTreeMap::new(), false);
    for (_, line) in part {
        if !line.starts_with('|') {
            is_wanted = false;
        } else if line.starts_with("| key") {
            is_wanted = head.is_empty() || line.starts_with(&format!("| {head} |"));
        }
        if !is_wanted || !line.starts_with("| `") {
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if let [key, _, default, meaning] = cells.as_slice() {
            let default = default.strip_prefix('`').and_then(|text| text.strip_suffix('`'));
            rows.insert(key.trim_matches('`'), ReferenceRow { default, meaning: plain(meaning) });
        }
    }
    rows
}

/// Default of a limit of a `websocket`, which differs from that of other limits.
pub fn of_websocket(limit: &str, key: &str) -> Option<&'static str> {
    let mut table =
        CONFIGURATION.lines().skip_while(|line| !line.starts_with("| default of a `websocket` |"));
    let cells =
        |line: &'static str| line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`'));
    let column = cells(table.next()?).position(|name| name == key)?;
    let mut rows = table.take_while(|line| line.starts_with('|'));
    rows.find(|line| cells(line).next() == Some(limit)).and_then(|line| cells(line).nth(column))
}

/// Deprecated keys with their replacements.
pub fn older() -> BTreeMap<&'static str, String> {
    let table = CONFIGURATION.lines().skip_while(|line| !line.starts_with("| older key |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|')).filter_map(|line| {
        let (key, now) = line.trim_matches('|').split_once(" | ")?;
        Some((key.trim().trim_matches('`'), plain(now)))
    });
    rows.collect()
}

/// Title of a section, from its heading.
pub fn section(name: &str) -> Option<&'static str> {
    let heading = format!("## `{name}`: ");
    CONFIGURATION.lines().find_map(|line| line.strip_prefix(heading.as_str()))
}

/// Removes Markdown markup; a link becomes its text.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.trim();
    while let Some((before, link)) = rest.split_once('[') {
        plain.push_str(before);
        let parts = link.split_once("](").filter(|(words, _)| !words.contains(['[', ']']));
        let parts = parts.and_then(|(words, rest)| Some((words, rest.split_once(')')?.1)));
        let (words, after) = parts.unwrap_or(("[", link));
        plain.push_str(words);
        rest = after;
    }
    plain.push_str(rest);
    plain.replace("**Ours.** ", "")
}

#[cfg(test)]
mod tests {
    use super::{CONFIGURATION, of_websocket, plain, rows, section};

    #[test]
    fn link_becomes_text_and_other_brackets_stay() {
        assert_eq!(plain(" a [b](c.md#d), `[::]` and [e](f) "), "a b, `[::]` and e");
        assert_eq!(plain("**Ours.** `services[].id`"), "`services[].id`");
    }

    #[test]
    fn row_is_found_with_its_default() {
        let rows = rows(CONFIGURATION, "", "");
        assert_eq!(rows["server.grpc_port"].default, Some("8081"));
        assert_eq!(rows["server.grpc_uds"].default, None);
        assert_eq!(section("mesh"), Some("limits shared by peers"));
        assert_eq!(of_websocket("messages", "window"), Some("1s"));
        assert_eq!(of_websocket("messages", "mode"), None);
    }
}
