//! Reading of text files with a size limit.

use std::io::Read;
use std::path::Path;

/// Reads a regular file of at most `most` bytes. A pipe could block forever, and a device might never end.
pub fn read_bounded(path: &Path, most: u64) -> std::io::Result<String> {
    let refused = |text: String| std::io::Error::new(std::io::ErrorKind::InvalidInput, text);
    if !std::fs::metadata(path)?.is_file() {
        return Err(refused("not a regular file".into()));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(refused(format!("it is larger than {most} bytes")));
    }
    Ok(text)
}
