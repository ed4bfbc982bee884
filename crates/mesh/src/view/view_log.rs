//! The views of a mesh in sequence, as far back as a window may have begun. It answers in which view a window
//! began. The answer is the same on every node that has one, because a view only follows the view in which it
//! was agreed.

use crate::view::Member;
use crate::view::{View, ViewId};
use hivemind_core::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many views are remembered: forty rolling restarts of three nodes. A window that began before all of them
/// began in no known view.
pub(crate) const MOST_VIEWS: usize = 256;
/// The size of views in a frame, in bytes: a single one always fits.
const MOST_BYTES: usize = 30_000;
/// The size of one without its members and the name of its proposer.
const OF_VIEW: usize = 40;

/// Views that follow each other; never empty.
#[derive(Clone, Debug)]
pub struct ViewLog {
    views: Vec<Arc<View>>,
    /// Whether views before the first of `views` are forgotten, or were never received.
    cut: bool,
    /// The founding view's id, which also decides between two meshes that meet.
    root: Root,
}

/// The beginning of a mesh: of two equally large meshes that meet, the older one stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Root {
    pub founded: Timestamp,
    pub(crate) id: ViewId,
}

fn follows(base: &View, next: &View) -> bool {
    next.base == Some(base.id())
        && next.height == base.height.saturating_add(1)
        && next.effective_at > base.effective_at
}

impl ViewLog {
    #[must_use]
    pub fn founded(view: View, now: Timestamp) -> Self {
        let root = Root { founded: now, id: view.id() };
        Self { views: vec![Arc::new(view)], cut: false, root }
    }

    /// A view log received from a peer: consecutive views, or nothing.
    pub(crate) fn received(root: Root, views: Vec<View>) -> Option<Self> {
        let follow = views.windows(2).all(|pair| match pair {
            [base, next] => follows(base, next),
            _ => false,
        });
        let first = views.first().filter(|_| follow && views.len() <= MOST_VIEWS)?;
        let cut = first.base.is_some();
        if !cut && first.id() != root.id {
            return None;
        }
        Some(Self { views: views.into_iter().map(Arc::new).collect(), cut, root })
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    #[expect(clippy::expect_used, reason = "every constructor puts a view in, and none is taken out")]
    #[must_use]
    pub fn head(&self) -> &Arc<View> {
        self.views.last().expect("never empty")
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<View>> + ExactSizeIterator {
        self.views.iter()
    }

    pub(crate) fn find(&self, id: ViewId) -> Option<&Arc<View>> {
        self.views.iter().rev().find(|view| view.id() == id)
    }

    /// Appends the view that follows. Returns false if it does not follow.
    pub fn append(&mut self, view: View) -> bool {
        let is_next = follows(self.head(), &view);
        if is_next {
            self.views.push(Arc::new(view));
            if self.views.len() > MOST_VIEWS {
                self.views.remove(0);
                self.cut = true;
            }
        }
        is_next
    }

    #[expect(clippy::expect_used, reason = "every constructor puts a view in, and none is taken out")]
    pub(crate) fn oldest(&self) -> &Arc<View> {
        self.views.first().expect("never empty")
    }

    /// The views that a peer with newest view `head` lacks, as far as one frame holds them: those after that
    /// view, or the newest of all if it is not among them.
    pub(crate) fn lacking(&self, head: Option<ViewId>) -> Vec<View> {
        let from = head.and_then(|head| self.views.iter().position(|view| view.id() == head));
        let after = from.map_or(0, |place| place + 1);
        let mut named: BTreeSet<&Member> = BTreeSet::new();
        let mut size = 0;
        let mut views: Vec<View> = Vec::new();
        for view in self.views.iter().skip(after).rev() {
            size += OF_VIEW + view.round.proposer.as_str().len();
            for member in view.members.iter().chain(&view.gone) {
                let name = if named.insert(member) { member.id.as_str().len() + 12 } else { 0 };
                size += name + 2;
            }
            if size > MOST_BYTES && !views.is_empty() {
                break;
            }
            views.push(View::clone(view));
        }
        views.reverse();
        views
    }

    /// The view in which a window that starts at `start` began; none if that is forgotten.
    pub(crate) fn at(&self, start: Timestamp) -> Option<&Arc<View>> {
        self.views.iter().rev().find(|view| view.effective_at <= start)
    }
}
