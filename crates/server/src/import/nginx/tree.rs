//! Directive tree of a file and everything it includes.

use super::ImportError;
use super::glob;
use super::lexer::{Token, TokenKind, tokens};
use super::report::FilePosition;
use hivemind_config::bounded_file::read_bounded;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum nesting of blocks and of includes.
const DEEPEST: usize = 32;
const MOST_FILES: usize = 1_000;
const LARGEST_FILE: u64 = 4 << 20;
const MOST_DIRECTIVES: usize = 100_000;

/// A directive with its block.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
    pub(super) place: FilePosition,
}

impl Directive {
    /// The directive in short form.
    pub(super) fn shown(&self) -> String {
        const LONGEST: usize = 80;
        let words: Vec<&str> = std::iter::once(&self.name).chain(&self.args).map(String::as_str).collect();
        let text: String = words.join(" ").chars().flat_map(char::escape_debug).collect();
        if text.chars().count() > LONGEST {
            format!("{}...", text.chars().take(LONGEST).collect::<String>())
        } else {
            text
        }
    }

    pub(super) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    pub(super) fn children(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// Reads a file and everything it includes.
pub(super) fn read(path: &Path) -> Result<Vec<Directive>, ImportError> {
    // nginx resolves includes relative to its main file, whichever file includes them.
    let home = path.parent().map(Path::to_owned).unwrap_or_default();
    DirectiveReader { home, files: 0, directives: 0 }.file(path, 0, None)
}

struct DirectiveReader {
    home: PathBuf,
    files: usize,
    directives: usize,
}

impl DirectiveReader {
    fn file(
        &mut self,
        path: &Path,
        depth: usize,
        from: Option<&FilePosition>,
    ) -> Result<Vec<Directive>, ImportError> {
        let name: Arc<str> = path.display().to_string().into();
        let here = FilePosition { order: self.files, file: Arc::clone(&name), line: 1 };
        let place = from.cloned().unwrap_or(here);
        self.files += 1;
        if self.files > MOST_FILES || depth > DEEPEST {
            let cause = format!("more than {MOST_FILES} files are included, or deeper than {DEEPEST}");
            return Err(ImportError::Broken { place, cause, remedy: "check whether a file includes itself" });
        }
        let text = read_bounded(path, LARGEST_FILE).map_err(|error| ImportError::Broken {
            place: place.clone(),
            cause: format!("cannot read {name}: {error}"),
            remedy: "check the path and its permissions",
        })?;
        let order = self.files - 1;
        let at = |line| FilePosition { order, file: Arc::clone(&name), line };
        // Some editors start files with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let tokens = tokens(text).map_err(|unread| ImportError::Broken {
            place: at(unread.line),
            cause: unread.cause.to_owned(),
            remedy: "run `nginx -t` for details",
        })?;
        let mut rest = tokens.into_iter();
        let directives = self.block(&mut rest, &at, depth, None)?;
        Ok(directives)
    }

    /// The directives up to the end of a block; `opened` is the line of its brace, `None` for a file.
    fn block(
        &mut self,
        rest: &mut impl Iterator<Item = Token>,
        at: &impl Fn(usize) -> FilePosition,
        depth: usize,
        opened: Option<usize>,
    ) -> Result<Vec<Directive>, ImportError> {
        let broken = |line, cause: &str| ImportError::Broken {
            place: at(line),
            cause: cause.to_owned(),
            remedy: "run `nginx -t` for details",
        };
        let mut directives = Vec::new();
        let mut words: Vec<(String, usize)> = Vec::new();
        while let Some(Token { kind, line }) = rest.next() {
            let is_block = match kind {
                TokenKind::Word(word) => {
                    words.push((word, line));
                    continue;
                }
                TokenKind::Close if !words.is_empty() => {
                    return Err(broken(line, "missing `;` before `}`"));
                }
                TokenKind::Close if opened.is_some() => return Ok(directives),
                TokenKind::Close => return Err(broken(line, "unexpected `}`")),
                TokenKind::End | TokenKind::Open if words.is_empty() => {
                    return Err(broken(line, "missing directive"));
                }
                TokenKind::End => false,
                TokenKind::Open => true,
            };
            let mut named = std::mem::take(&mut words).into_iter();
            let Some((name, begun)) = named.next() else { continue };
            let args: Vec<String> = named.map(|(word, _)| word).collect();
            self.directives += 1;
            if depth > DEEPEST || self.directives > MOST_DIRECTIVES {
                return Err(broken(line, "blocks are nested too deep, or there are too many directives"));
            }
            let block = is_block.then(|| self.block(rest, at, depth + 1, Some(line))).transpose()?;
            let directive = Directive { name, args, block, place: at(begun) };
            if directive.name == "include" && directive.block.is_none() {
                directives.extend(self.included(&directive, depth)?);
            } else {
                directives.push(directive);
            }
        }
        match (words.first(), opened) {
            (Some((_, line)), _) => Err(broken(*line, "missing `;` after this directive")),
            (None, Some(line)) => Err(broken(line, "unclosed `{`")),
            (None, None) => Ok(directives),
        }
    }

    fn included(&mut self, include: &Directive, depth: usize) -> Result<Vec<Directive>, ImportError> {
        let pattern = self.home.join(include.arg(0));
        let files = glob::files(&pattern).map_err(|error| ImportError::Broken {
            place: include.place.clone(),
            cause: format!("cannot search for {}: {error}", pattern.display()),
            remedy: "check the path and its permissions",
        })?;
        let mut directives = Vec::new();
        for file in files {
            directives.extend(self.file(&file, depth + 1, Some(&include.place))?);
        }
        Ok(directives)
    }
}
