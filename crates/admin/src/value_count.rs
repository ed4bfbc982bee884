//! Limit on the number of values in a JSON body, checked before it is parsed. A value of three bytes takes hundreds of
//! bytes in a parsed message.

/// Maximum number of values: strings, numbers, lists, objects, and member names.
pub(super) const MOST_VALUES: usize = 10_000;

/// A body with too many values.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body has more than {MOST_VALUES} values (at byte {at}); send several requests")]
pub(super) struct TooManyValues {
    at: usize,
}

/// Counts the separators of values, of which there is at least one for each value but the first. Invalid JSON is left
/// to its parser.
///
/// # Errors
/// If there are more values than allowed.
pub(super) fn few_values(body: &[u8]) -> Result<(), TooManyValues> {
    let (mut count, mut in_text, mut escaped) = (1_usize, false, false);
    for (at, byte) in body.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b',' | b':' | b'[' | b'{' if !in_text => count += 1,
            _ => {}
        }
        if count > MOST_VALUES {
            return Err(TooManyValues { at });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{MOST_VALUES, few_values};

    // Fails when separators within texts count, and when an escaped quote ends a text.
    #[test]
    fn values_are_counted_outside_of_texts() {
        let text =
            format!(r#"{{"a": "{}\\", "b": "\"{}"}}"#, ",[".repeat(MOST_VALUES), ",:".repeat(MOST_VALUES));
        assert_eq!(few_values(text.as_bytes()), Ok(()));
        for dense in ["[],", "{},", "1,", "\"\",", "{\"a\":[]},"] {
            assert_eq!(few_values(dense.repeat(MOST_VALUES / 8).as_bytes()), Ok(()), "{dense}");
            let error = few_values(dense.repeat(MOST_VALUES).as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("the body has more than 10000 values (at byte "), "{dense}: {error}");
        }
    }
}
