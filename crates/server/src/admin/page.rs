//! Long lists come in pages: `?limit=` so many, and `next` of the answer is the `cursor` of the next one.

use super::query::Query;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;

/// Which part of a list is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    limit: usize,
    /// What the last item of the page before is known by.
    after: Option<String>,
}

/// As many as a list shows where nobody says how many.
const USUAL: usize = 100;
const MOST: usize = 1_000;
/// No cursor of ours is longer.
const LONGEST_CURSOR: usize = 16 << 10;

impl Page {
    /// The names that a query has for it.
    pub(super) const NAMES: [&str; 2] = ["limit", "cursor"];

    /// What a query asks for.
    ///
    /// # Errors
    /// What to ask instead.
    pub(super) fn of(query: &Query) -> Result<Self, String> {
        let limit = Self::limit_of(query, USUAL)?;
        let after = query.get("cursor").map(|cursor| mark(cursor).ok_or(NO_CURSOR)).transpose()?;
        Ok(Self { limit, after })
    }

    /// How many are asked for, where a list has one page only.
    ///
    /// # Errors
    /// What to ask instead.
    pub(super) fn limit_of(query: &Query, usual: usize) -> Result<usize, String> {
        let Some(text) = query.get("limit") else { return Ok(usual) };
        let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
        number.ok_or_else(|| format!("`limit` is a number from 1 to {MOST}."))
    }

    /// The number of this page's first item in a list that goes by numbers.
    ///
    /// # Errors
    /// If no page ended there, or if it was the page of a list that is no more.
    pub(super) fn first_of(&self, list: u64) -> Result<usize, String> {
        match self.after::<Numbered>()? {
            None => Ok(0),
            Some(before) if before.list == list => Ok(before.number.saturating_add(1)),
            Some(_) => Err("The list has changed since that page; begin anew, without `cursor`.".to_owned()),
        }
    }

    /// What the last item of the page before is known by: a number, or another text that its list chose.
    ///
    /// # Errors
    /// If no page ended there.
    pub(super) fn after<T: FromStr>(&self) -> Result<Option<T>, String> {
        self.after.as_ref().map(|mark| mark.parse().map_err(|_| NO_CURSOR.to_owned())).transpose()
    }

    /// The page, of items from its first one on, each with what it is known by.
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

/// Where a page ends in a list that goes by numbers, and which list that is: of another one, the number is another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) list: u64,
    pub(super) number: usize,
}

impl fmt::Display for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}", self.list, self.number)
    }
}

impl FromStr for Numbered {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (list, number) = text.split_once('.').ok_or(())?;
        let list = u64::from_str_radix(list, 16).map_err(|_| ())?;
        Ok(Self { list, number: number.parse().map_err(|_| ())? })
    }
}

const NO_CURSOR: &str = "`cursor` is what `next` of a page said; leave it out for the first page.";

fn mark(cursor: &str) -> Option<String> {
    if cursor.len() > LONGEST_CURSOR {
        return None;
    }
    String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str) -> Result<Page, String> {
        Page::of(&Query::read(Some(query), &Page::NAMES).unwrap())
    }

    // Seen failing on: a `next` that the last page has, and no other one.
    #[test]
    fn pages_follow_each_other_until_there_is_no_next() {
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

    // Seen failing on: a cursor that is a number and nothing else.
    #[test]
    fn a_page_of_a_list_that_has_changed_is_told_to_begin_anew() {
        let shown =
            page("limit=1").unwrap().of_items((0..2).map(|number| (Numbered { list: 7, number }, json!(0))));
        let next = page(&format!("cursor={}", shown["next"].as_str().unwrap())).unwrap();
        assert_eq!(next.first_of(7), Ok(1));
        assert!(next.first_of(8).unwrap_err().contains("begin anew"));
        assert_eq!(page("").unwrap().first_of(8), Ok(0));
    }

    #[test]
    fn what_is_no_page_is_told_what_one_is() {
        for wrong in ["limit=0", "limit=1001", "limit=", "limit=-1", "cursor=*", "cursor=_w"] {
            assert!(page(wrong).is_err(), "{wrong}");
        }
        assert!(page("cursor=eA").unwrap().after::<u64>().is_err(), "`x` is no number");
        assert_eq!(page("limit=1000").unwrap(), Page { limit: 1_000, after: None });
    }
}
