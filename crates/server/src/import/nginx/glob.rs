//! The files that an `include` names, as nginx finds them: by `*` and `?`, in order.

use std::path::{Component, Path, PathBuf};

/// The files of a pattern. One without wildcards is itself, whether it is there or not.
pub(super) fn files(pattern: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let name = match part {
            Component::Normal(name) => name.to_str().filter(|name| name.contains(['*', '?'])),
            _ => None,
        };
        let Some(name) = name else {
            for path in &mut found {
                path.push(part);
            }
            continue;
        };
        let mut next = Vec::new();
        for folder in &found {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            // A folder that is not there has no files, which is no mistake to nginx.
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            for entry in entries {
                let entry = entry?.file_name();
                let matches =
                    |entry: &str| !entry.starts_with('.') && is_match(&letters(name), &letters(entry));
                if entry.to_str().is_some_and(matches) {
                    next.push(folder.join(entry));
                }
            }
        }
        next.sort();
        found = next;
    }
    Ok(found)
}

fn letters(text: &str) -> Vec<char> {
    text.chars().collect()
}

fn is_match(pattern: &[char], name: &[char]) -> bool {
    // Without a stack: the last star is taken up again where what follows it does not fit.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(of) if *of == '?' || Some(of) == name.get(n) => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, n) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use super::{is_match, letters};

    #[test]
    fn stars_and_question_marks_stand_for_letters() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf~", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xbxxa", false),
            ("*", "", true),
        ] {
            assert_eq!(is_match(&letters(pattern), &letters(name)), expected, "{pattern} {name}");
        }
    }
}
