//! Cold fields: rarely set values in a separate allocation. There are a hundred thousand counters, and each
//! byte of them is a tenth of a megabyte.

/// Storage for a value that mostly stays at its default, allocated when it changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColdFields<T>(Option<Box<T>>);

impl<T: Copy + Default + PartialEq> ColdFields<T> {
    #[inline]
    pub(crate) fn get(&self) -> T {
        self.0.as_deref().copied().unwrap_or_default()
    }

    /// Changes the value; allocates only if it differs from the default afterwards.
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

impl<T> From<T> for ColdFields<T> {
    fn from(value: T) -> Self {
        Self(Some(Box::new(value)))
    }
}
