//! Executor of thread-local tasks: what a connection starts stays on its thread.

/// Runs HTTP/2 tasks on the current thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalTasks;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalTasks {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}
