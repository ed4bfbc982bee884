//! Secrets, read from files that only this service can read. Arguments and variables contain the path of a
//! file, not the secret. The exception is a password in the URL of Redis, for which the reader logs a warning.

use anyhow::{Context, ensure};
use hivemind_core::store::KeySeed;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Longest secret in bytes.
const LONGEST: u64 = 64 << 10;
/// A shorter seed could be guessed.
const SHORTEST_SEED: usize = 16;

/// The password in a file: its first line.
pub fn password(key: &str, path: &Path) -> anyhow::Result<String> {
    let bytes = read(key, path, Readers::Owner)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line));
    let line = line.with_context(|| format!("`{key}`: the first line of {} is not text", path.display()))?;
    ensure!(
        !line.is_empty(),
        "`{key}`: the first line of {} is empty; write the password there",
        path.display()
    );
    Ok(line.to_owned())
}

/// A file of certificates in PEM.
pub fn certificate(key: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    read(key, path, Readers::All)
}

/// The private key of a certificate, in PEM.
pub fn private_key(key: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    read(key, path, Readers::Owner)
}

/// The seed in a file: its whole content, hashed to the length of a seed.
pub fn key_seed(path: &Path) -> anyhow::Result<KeySeed> {
    let key = "security.key_seed_file";
    let bytes = read(key, path, Readers::Owner)?;
    let secret = bytes.trim_ascii_end(); // The newline that an editor adds does not change the seed.
    ensure!(
        secret.len() >= SHORTEST_SEED,
        "`{key}`: {} has fewer than {SHORTEST_SEED} bytes; fill it with `openssl rand -hex 32`",
        path.display()
    );
    Ok(hashed(&[secret]))
}

/// The seed of the nodes of a mesh without a configured seed: not secret, but the same on all nodes.
pub fn seed_of_cluster(cluster_id: &str) -> KeySeed {
    hashed(&[b"hivemind cluster\0", cluster_id.as_bytes()])
}

fn hashed(parts: &[&[u8]]) -> KeySeed {
    let digest = parts.iter().fold(Sha256::new(), Sha256::chain_update).finalize();
    let mut seed = [0; 16];
    for (byte, of_digest) in seed.iter_mut().zip(digest) {
        *byte = of_digest;
    }
    KeySeed::new(seed)
}

/// Who may read a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readers {
    Owner,
    All,
}

fn read(key: &str, path: &Path, readers: Readers) -> anyhow::Result<Vec<u8>> {
    let unread = || format!("`{key}`: {} cannot be read; check the path and its permissions", path.display());
    let file = File::open(path).with_context(unread)?;
    let about = file.metadata().with_context(unread)?;
    ensure!(about.is_file(), "`{key}`: {} is not a file; set the path of one", path.display());
    if readers == Readers::Owner && about.permissions().mode() & 0o004 != 0 {
        let path = path.display();
        tracing::warn!("`{key}`: every user of this machine can read {path}; run `chmod 600 {path}`");
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).with_context(unread)?;
    let length = bytes.len() as u64;
    ensure!(
        length <= LONGEST,
        "`{key}`: {} is longer than {LONGEST} bytes; is it the right one?",
        path.display()
    );
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{key_seed, password};

    #[test]
    fn password_is_first_line_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        for (text, expected) in [
            ("hunter2", Some("hunter2")),
            ("hunter2\n", Some("hunter2")),
            ("hunter2\r\nand more\n", Some("hunter2")),
            (" with spaces \n", Some(" with spaces ")),
            ("", None),
            ("\nhunter2\n", None),
        ] {
            std::fs::write(&path, text).unwrap();
            let read = password("storage.redis.password_file", &path);
            assert_eq!(read.as_deref().ok(), expected, "{text:?}");
        }
        std::fs::write(&path, vec![b'a'; 100_000]).unwrap();
        for wrong in [path.as_path(), folder.path(), &folder.path().join("nowhere")] {
            let message = format!("{:#}", password("storage.redis.password_file", wrong).unwrap_err());
            assert!(message.starts_with("`storage.redis.password_file`: "), "{message}");
            assert!(message.contains(&wrong.display().to_string()) && !message.contains("aaaa"), "{message}");
        }
    }

    // Fails when the seed is the first 16 bytes instead of a hash.
    #[test]
    fn seed_is_whole_file_without_last_newline() {
        let folder = tempfile::tempdir().unwrap();
        let seed = |text: &str| {
            let path = folder.path().join("seed");
            std::fs::write(&path, text).unwrap();
            key_seed(&path).ok()
        };
        let long = "0123456789abcdef0123456789abcdef";
        assert!(seed(long).is_some());
        assert_eq!(seed(long), seed(&format!("{long}\n")));
        assert_ne!(seed(long), seed(&format!("{long}g")));
        assert_ne!(seed(long), seed(&format!("g{long}")));
        assert_eq!(seed("0123456789abcde\n"), None);
    }
}
