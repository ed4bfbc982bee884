//! Spelling of configuration words: booleans, and suggestions for misspelled keys.

/// Suggests the nearest known key, or lists all of them if none is similar.
pub fn remedy_for_unknown(text: &str, known: &[&str]) -> String {
    let nearest = known.iter().min_by_key(|candidate| distance(text, candidate));
    match nearest {
        Some(nearest) if distance(text, nearest) <= 3 => format!("did you mean `{nearest}`?"),
        _ => format!("the keys here are: {}", known.join(", ")),
    }
}

/// Edit distance: letters inserted, removed or changed.
pub fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        for (above, y) in row.iter_mut().skip(1).zip(b.chars()) {
            left = (corner + usize::from(x != y)).min(left + 1).min(*above + 1);
            corner = std::mem::replace(above, left);
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

pub fn is_truthy(text: &str) -> bool {
    ["true", "yes", "on"].iter().any(|word| word.eq_ignore_ascii_case(text))
}

pub fn is_falsy(text: &str) -> bool {
    ["false", "no", "off"].iter().any(|word| word.eq_ignore_ascii_case(text))
}
