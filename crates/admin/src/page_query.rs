//! Pagination: `?limit=` items per page, and `next` of a response is the `cursor` of the next page.

use super::query::Query;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;

/// The requested part of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageQuery {
    limit: usize,
    /// The position of the last item on the previous page.
    after: Option<String>,
}

/// The default page size.
const USUAL: usize = 100;
const MOST: usize = 1_000;
/// Longer than any cursor of ours.
const LONGEST_CURSOR: usize = 16 << 10;

impl PageQuery {
    /// The query parameters of a page.
    pub(super) const NAMES: [&str; 2] = ["limit", "cursor"];

    /// Reads the query parameters.
    ///
    /// # Errors
    /// What to send instead.
    pub(super) fn of(query: &Query) -> Result<Self, String> {
        let limit = Self::limit_of(query, USUAL)?;
        let after = query.get("cursor").map(|cursor| mark(cursor).ok_or(NO_CURSOR)).transpose()?;
        Ok(Self { limit, after })
    }

    /// Reads the number of items, for a list with one page.
    ///
    /// # Errors
    /// What to send instead.
    pub(super) fn limit_of(query: &Query, usual: usize) -> Result<usize, String> {
        let Some(text) = query.get("limit") else { return Ok(usual) };
        let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
        number.ok_or_else(|| format!("`limit` must be a number from 1 to {MOST}."))
    }

    /// The index of this page's first item in a numbered list.
    ///
    /// # Errors
    /// The cursor is invalid, or the list has changed.
    pub(super) fn first_of(&self, list: u64) -> Result<usize, String> {
        match self.after::<ListPosition>()? {
            None => Ok(0),
            Some(before) if before.list == list => Ok(before.number.saturating_add(1)),
            Some(_) => Err("The list has changed since that page; start again without `cursor`.".to_owned()),
        }
    }

    /// The position after which this page starts: a number, or another text of the list.
    ///
    /// # Errors
    /// The cursor is invalid.
    pub(super) fn after<T: FromStr>(&self) -> Result<Option<T>, String> {
        self.after.as_ref().map(|mark| mark.parse().map_err(|_| NO_CURSOR.to_owned())).transpose()
    }

    /// The page of the given items, which start at its first one; each comes with its position.
    pub(super) fn of_items<M: ToString>(&self, mut items: impl Iterator<Item = (M, Value)>) -> Value {
        let (mut shown, mut last) = (Vec::new(), None);
        for (mark, item) in items.by_ref().take(self.limit) {
            shown.push(item);
            last = Some(mark);
        }
        let next = last.filter(|_| items.next().is_some());
        let next = next.map(|mark| URL_SAFE_NO_PAD.encode(mark.to_string()));
        json!({"items": shown, "next": next})
    }
}

/// The position in a numbered list, with the identity of the list: in another list the number means another item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListPosition {
    pub(super) list: u64,
    pub(super) number: usize,
}

impl fmt::Display for ListPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}", self.list, self.number)
    }
}

impl FromStr for ListPosition {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (list, number) = text.split_once('.').ok_or(())?;
        let list = u64::from_str_radix(list, 16).map_err(|_| ())?;
        Ok(Self { list, number: number.parse().map_err(|_| ())? })
    }
}

const NO_CURSOR: &str = "`cursor` must be the `next` of a page; omit it for the first page.";

fn mark(cursor: &str) -> Option<String> {
    if cursor.len() > LONGEST_CURSOR {
        return None;
    }
    String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str) -> Result<PageQuery, String> {
        PageQuery::of(&Query::read(Some(query), &PageQuery::NAMES).unwrap())
    }

    // Fails when only the last page has a `next`.
    #[test]
    fn pages_continue_until_next_is_missing() {
        let (mut query, mut seen) = ("limit=3".to_owned(), Vec::new());
        let mut pages = 0;
        loop {
            let page = page(&query).unwrap();
            let from = page.after::<u64>().unwrap().map_or(0, |last| last + 1);
            let shown = page.of_items((from..6).map(|number| (number, json!(number))));
            seen.extend(shown["items"].as_array().unwrap().iter().map(|item| item.as_u64().unwrap()));
            pages += 1;
            let Some(next) = shown["next"].as_str() else { break };
            query = format!("limit=3&cursor={next}");
        }
        assert_eq!((seen, pages), ((0..6).collect(), 2));
    }

    // Fails when a cursor is only a number.
    #[test]
    fn cursor_of_a_changed_list_is_rejected() {
        let shown = page("limit=1")
            .unwrap()
            .of_items((0..2).map(|number| (ListPosition { list: 7, number }, json!(0))));
        let next = page(&format!("cursor={}", shown["next"].as_str().unwrap())).unwrap();
        assert_eq!(next.first_of(7), Ok(1));
        assert!(next.first_of(8).unwrap_err().contains("start again"));
        assert_eq!(page("").unwrap().first_of(8), Ok(0));
    }

    #[test]
    fn invalid_page_parameters_are_rejected() {
        for wrong in ["limit=0", "limit=1001", "limit=", "limit=-1", "cursor=*", "cursor=_w"] {
            assert!(page(wrong).is_err(), "{wrong}");
        }
        assert!(page("cursor=eA").unwrap().after::<u64>().is_err(), "`x` is not a number");
        assert_eq!(page("limit=1000").unwrap(), PageQuery { limit: 1_000, after: None });
    }
}
