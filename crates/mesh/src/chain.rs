//! The views of a mesh, one after the other, as far back as a window may have begun.
//! Its one question is in which view a window began; its answer is the same on every
//! node that gives one, because a view only ever follows the view it was agreed upon in.

use crate::view::{View, ViewId};
use hivemind_core::Timestamp;
use std::sync::Arc;

/// So many views are remembered. A window that began before all of them began in no known one.
pub(crate) const MOST_VIEWS: usize = 16;

/// Views that follow each other; never empty.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    views: Vec<Arc<View>>,
    /// Whether views before the first of `views` are forgotten, or were never told.
    cut: bool,
    /// The founding view's name, and what decides between two meshes that meet.
    root: Root,
}

/// The beginning of a mesh: of two that meet, the older one stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Root {
    pub(crate) founded: Timestamp,
    pub(crate) id: ViewId,
}

impl Chain {
    pub(crate) fn founded(view: View, now: Timestamp) -> Self {
        let root = Root { founded: now, id: view.id() };
        Self { views: vec![Arc::new(view)], cut: false, root }
    }

    /// A chain as a peer told it: views that follow each other, or nothing.
    pub(crate) fn told(root: Root, views: Vec<View>) -> Option<Self> {
        let follow = views.windows(2).all(|pair| match pair {
            [base, next] => next.base == Some(base.id()) && next.fence > base.fence,
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
    pub(crate) fn head(&self) -> &Arc<View> {
        self.views.last().expect("never empty")
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<View>> + ExactSizeIterator {
        self.views.iter()
    }

    pub(crate) fn find(&self, id: ViewId) -> Option<&Arc<View>> {
        self.views.iter().rev().find(|view| view.id() == id)
    }

    /// Adds the view that follows. Says no if it does not follow.
    pub(crate) fn append(&mut self, view: View) -> bool {
        let follows = view.base == Some(self.head().id()) && view.fence > self.head().fence;
        if follows {
            self.views.push(Arc::new(view));
            if self.views.len() > MOST_VIEWS {
                self.views.remove(0);
                self.cut = true;
            }
        }
        follows
    }

    /// The view that a window which starts at `start` began in; none if that is forgotten.
    pub(crate) fn at(&self, start: Timestamp) -> Option<&Arc<View>> {
        self.views.iter().rev().find(|view| view.fence <= start)
    }
}
