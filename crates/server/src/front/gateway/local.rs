//! Tasks of this thread: nothing that a connection starts leaves it.

/// Runs what HTTP/2 starts in the thread that it is started in.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalTasks;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalTasks {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}
