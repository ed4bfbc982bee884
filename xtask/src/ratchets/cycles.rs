//! Cycles between the top-level modules of a crate, by the paths `crate::..` and `super::..` in its code.

use super::Findings;
use super::rust::{Source, for_each_run, ident, is_punct};
use proc_macro2::{Delimiter, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// An edge and one place that makes it.
type Edges = BTreeMap<(String, String), String>;

pub(super) fn check(sources: &[Source], findings: &mut Findings) {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_production) {
        crates.entry(source.crate_name()).or_default().push(source);
    }
    for (name, sources) in crates {
        let edges = edges(&sources);
        let reachable = closure(&edges);
        let is_cyclic = |(from, to): &(String, String)| reachable.contains(&(to.clone(), from.clone()));
        for ((from, to), place) in edges.iter().filter(|(edge, _)| is_cyclic(edge)) {
            findings.add(format!("edges in module cycles: {name}"), format!("{place}: {from} -> {to}"));
        }
    }
}

fn edges(sources: &[&Source]) -> Edges {
    let modules: BTreeSet<_> =
        sources.iter().filter_map(|source| source.module().first().map(|top| (*top).to_owned())).collect();
    let roots = sources.iter().filter(|source| source.module().is_empty());
    let exports: BTreeMap<_, _> = roots.flat_map(|root| exports(&root.tokens, &modules)).collect();
    let mut edges = Edges::new();
    for source in sources {
        let module = source.module();
        let Some(from) = module.first() else { continue };
        for_each_run(&source.tokens, &mut |run| {
            for at in 0..run.len() {
                for (line, name) in root_names(run, at, module.len()) {
                    let to = if modules.contains(&name) { Some(&name) } else { exports.get(&name) };
                    if let Some(to) = to.filter(|to| to != from) {
                        let place = || format!("{}:{line}", source.path);
                        edges.entry(((*from).to_owned(), to.clone())).or_insert_with(place);
                    }
                }
            }
        });
    }
    edges
}

/// What the root re-exports, with the module it comes from: `use a::b::{C, D};` gives `C` and `D` of `a`.
fn exports(tokens: &[TokenTree], modules: &BTreeSet<String>) -> Vec<(String, String)> {
    let mut exports = Vec::new();
    for at in 0..tokens.len() {
        if ident(tokens.get(at)).as_deref() != Some("use") {
            continue;
        }
        let Some(from) = ident(tokens.get(at + 1)).filter(|name| modules.contains(name)) else { continue };
        let end = tokens
            .iter()
            .skip(at)
            .position(|token| is_punct(Some(token), ';'))
            .map_or(tokens.len(), |end| at + end);
        for_each_run(tokens.get(at + 2..end).unwrap_or_default(), &mut |run| {
            exports.extend(run.iter().filter_map(|token| Some((ident(Some(token))?, from.clone()))));
        });
    }
    exports
}

/// The names in the crate's root that a path at this place begins with: one, or several of a `use` with braces.
fn root_names(run: &[TokenTree], at: usize, depth: usize) -> Vec<(usize, String)> {
    let mut rest = run.get(at..).unwrap_or_default();
    let follows = |rest: &[TokenTree]| is_punct(rest.get(1), ':') && is_punct(rest.get(2), ':');
    let is_inner = at > 0 && is_punct(run.get(at - 1), ':');
    match ident(rest.first()).as_deref() {
        Some("crate") if follows(rest) && !is_inner => rest = rest.get(3..).unwrap_or_default(),
        Some("super") if follows(rest) && !is_inner => {
            let mut levels = 0;
            while ident(rest.first()).as_deref() == Some("super") && follows(rest) {
                rest = rest.get(3..).unwrap_or_default();
                levels += 1;
            }
            if levels < depth {
                return Vec::new();
            }
        }
        _ => return Vec::new(),
    }
    let place = |token: &TokenTree| token.span().start().line;
    match rest.first() {
        Some(TokenTree::Ident(name)) => vec![(name.span().start().line, name.to_string())],
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let inner: Vec<_> = group.stream().into_iter().collect();
            let starts = inner.split(|token| is_punct(Some(token), ','));
            starts.filter_map(|part| Some((place(part.first()?), ident(part.first())?))).collect()
        }
        _ => Vec::new(),
    }
}

fn closure(edges: &Edges) -> BTreeSet<(String, String)> {
    let mut reachable: BTreeSet<_> = edges.keys().cloned().collect();
    loop {
        let step: Vec<_> = reachable
            .iter()
            .flat_map(|(from, via)| {
                edges
                    .keys()
                    .filter(move |(start, _)| start == via)
                    .map(move |(_, to)| (from.clone(), to.clone()))
            })
            .filter(|edge| !reachable.contains(edge))
            .collect();
        if step.is_empty() {
            return reachable;
        }
        reachable.extend(step);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rust::without_tests;
    use super::*;

    fn source(path: &str, code: &str) -> Source {
        let tokens = without_tests(code.parse().unwrap());
        Source { path: format!("crates/x/src/{path}"), text: code.to_owned(), is_production: true, tokens }
    }

    fn cyclic_edges(sources: &[Source]) -> usize {
        let mut findings = Findings::default();
        check(sources, &mut findings);
        findings.by_key.values().map(|finding| finding.count).sum()
    }

    #[test]
    fn cycle_of_two_modules_is_found() {
        let b = source("b/inner.rs", "fn f() { super::super::a::g() }");
        assert_eq!(cyclic_edges(&[source("a.rs", "use crate::{b::C, d};"), b]), 2);
        assert_eq!(
            cyclic_edges(&[source("a.rs", "use crate::b::C;"), source("b.rs", "use super::c::D;")]),
            0
        );
    }

    #[test]
    fn reexport_of_the_root_counts_as_its_module() {
        let root = source("lib.rs", "mod a; mod b; pub use a::{A, other::B};");
        assert_eq!(
            cyclic_edges(&[root, source("a.rs", "use crate::b::C;"), source("b.rs", "use crate::B;")]),
            2
        );
    }

    #[test]
    fn tests_and_own_children_make_no_edge() {
        let a = source("a.rs", "use crate::b::C; #[cfg(test)] mod tests { use crate::b; }");
        let b = source("b.rs", "#[cfg(test)] use crate::a; use super::b::C;");
        assert_eq!(cyclic_edges(&[a, b]), 0);
    }
}
