//! Tasks that end with the value to which they belong.

use tokio::task::{AbortHandle, JoinHandle};

/// Aborts a task when it is dropped, for example with the connection that the task is about.
pub(crate) struct AbortOnDrop(pub(crate) AbortHandle);

impl AbortOnDrop {
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::new(&tokio::spawn(work))
    }

    pub(crate) fn new<T>(task: &JoinHandle<T>) -> Self {
        Self(task.abort_handle())
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
