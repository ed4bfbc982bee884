//! What is nothing for most counters, in a box of its own: there are a hundred thousand counters, and each
//! byte of them is a tenth of a megabyte.

/// Room for something that mostly is as it began, made when it is not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Annex<T>(Option<Box<T>>);

impl<T: Copy + Default + PartialEq> Annex<T> {
    #[inline]
    pub(crate) fn get(&self) -> T {
        self.0.as_deref().copied().unwrap_or_default()
    }

    /// Changes it, and makes room for it only if it is something then.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        if let Some(kept) = &mut self.0 {
            return change(kept);
        }
        let mut value = T::default();
        let result = change(&mut value);
        if value != T::default() {
            self.0 = Some(Box::new(value));
        }
        result
    }
}

impl<T> From<T> for Annex<T> {
    fn from(value: T) -> Self {
        Self(Some(Box::new(value)))
    }
}
